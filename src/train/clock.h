// SPDX-License-Identifier: Apache-2.0
// Clocks for reports. Nothing that is computed depends on them.
#pragma once

#include <cerrno>
#include <ctime>

namespace bascule {

inline double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double monotonic_seconds() noexcept { return seconds_of(CLOCK_MONOTONIC); }
// Returns when monotonic_seconds() is `when` or, by as little as the system allows, later.
inline void sleep_until(double when) noexcept {
  timespec time{};
  time.tv_sec = static_cast<time_t>(when);
  time.tv_nsec = static_cast<long>((when - static_cast<double>(time.tv_sec)) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

inline double unix_seconds() noexcept { return seconds_of(CLOCK_REALTIME); }

}  // namespace bascule
