// SPDX-License-Identifier: Apache-2.0
// Sleeping until something changes, without a lock: a counter that is raised at every change, and a futex under it. No
// call allocates; usable after the seal from any thread.
//
//   const std::uint32_t seen = event.count();
//   if (!condition()) event.wait_beyond(seen);   // a change between the two lines is not lost; look again afterwards
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/align.h"

namespace bascule {

class Event {
 public:
  std::uint32_t count() const noexcept { return count_.load(); }
  // Call after the change: wakes all that wait.
  void raise() noexcept;
  // Returns when count() is not `seen` any more, and sometimes for no reason.
  void wait_beyond(std::uint32_t seen) noexcept;

 private:
  alignas(kCacheLine) std::atomic<std::uint32_t> count_{0};
  std::atomic<std::int32_t> sleepers_{0};
};

}  // namespace bascule
