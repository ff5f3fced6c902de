// SPDX-License-Identifier: Apache-2.0
// A heartbeat: a sign that a process is alive, counted where the work is done and read by whoever watches it, in
// another thread or, where it lies in shared memory, another process. Writing it is one plain store. It says nothing of
// how far the process has come: that is TapePosition.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/align.h"

namespace bascule {

struct alignas(kCacheLine) Heartbeat {
  std::atomic<std::uint64_t> beats{0};  // grows with every piece of work done

  void beat() noexcept { beats.fetch_add(1, std::memory_order_relaxed); }
};

}  // namespace bascule
