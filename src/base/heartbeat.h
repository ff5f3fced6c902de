// SPDX-License-Identifier: Apache-2.0
// A heartbeat: how far a process has come, counted where the work is done and read by whoever watches it, in another
// thread or, where it lies in shared memory, another process. Writing it is two plain stores.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/align.h"

namespace bascule {

struct alignas(kCacheLine) Heartbeat {
  std::atomic<std::uint64_t> beats{0};     // grows with every piece of work done
  std::atomic<std::int64_t> operation{0};  // origin + the operations done of the tape under way
  std::int64_t origin = 0;                 // by the thread that beats, between tapes

  // By one thread at a time. A reader of the operation also sees everything written before.
  void beat(std::int64_t operations_done) noexcept {
    operation.store(origin + operations_done, std::memory_order_release);
    beat();
  }
  void beat() noexcept { beats.fetch_add(1, std::memory_order_relaxed); }
};

}  // namespace bascule
