// SPDX-License-Identifier: Apache-2.0
// Sleeping until an interrupt or a time: a counter and a futex under it. No call allocates.
//
//   const std::uint32_t seen = event.count();
//   if (!condition()) event.wait_beyond(seen, ns);   // a change between the two lines is not lost
#pragma once

#include <atomic>
#include <cstdint>

namespace bascule::hpu_sim {

class DriverEvent {
 public:
  std::uint32_t count() const noexcept { return count_.load(); }
  void raise() noexcept;
  // Returns when count() is not `seen` any more, after `ns`, and sometimes for no reason.
  void wait_beyond(std::uint32_t seen, std::uint64_t ns) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::int32_t> sleepers_{0};
};

}  // namespace bascule::hpu_sim
