// SPDX-License-Identifier: Apache-2.0
// Clocks for reports. Nothing that is computed depends on them.
#pragma once

#include <ctime>

namespace bascule {

inline double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double monotonic_seconds() noexcept { return seconds_of(CLOCK_MONOTONIC); }
inline double unix_seconds() noexcept { return seconds_of(CLOCK_REALTIME); }

}  // namespace bascule
