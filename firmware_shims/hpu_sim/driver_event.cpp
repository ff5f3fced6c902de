// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/hpu_sim/driver_state.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace bascule::hpu_sim {

// A sleeper announces itself before the kernel compares the count; raise() changes the count before it looks for
// sleepers. All in one total order, so one of the two sees the other.
void DriverEvent::raise() noexcept {
  count_.fetch_add(1);
  if (sleepers_.load() > 0) ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void DriverEvent::wait_beyond(std::uint32_t seen, std::uint64_t ns) noexcept {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  ::timespec time = {};
  time.tv_sec = static_cast<::time_t>(ns / kSecond);
  time.tv_nsec = static_cast<long>(ns % kSecond);
  sleepers_.fetch_add(1);
  if (count_.load() == seen) ::syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, &time, nullptr, 0);
  sleepers_.fetch_sub(1);
}

}  // namespace bascule::hpu_sim
