// SPDX-License-Identifier: Apache-2.0
// Clocks, for figures, waits and time-outs: nothing that is computed depends on them. No call allocates.
#pragma once

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace bascule {

inline std::int64_t clock_ns(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Since some fixed moment; goes on whatever happens to the time of day.
inline std::int64_t monotonic_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }
inline std::int64_t monotonic_ms() noexcept { return monotonic_ns() / 1'000'000; }
inline double monotonic_seconds() noexcept { return 1e-9 * static_cast<double>(monotonic_ns()); }
// Returns when monotonic_seconds() is `when` or, by as little as the system allows, later.
inline void sleep_until(double when) noexcept {
  timespec time{};
  time.tv_sec = static_cast<time_t>(when);
  time.tv_nsec = static_cast<long>((when - static_cast<double>(time.tv_sec)) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

inline double unix_seconds() noexcept { return 1e-9 * static_cast<double>(clock_ns(CLOCK_REALTIME)); }

// Time on a core, of this thread and of all threads of the process.
inline std::int64_t thread_cpu_ns() noexcept { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
inline std::int64_t process_cpu_ns() noexcept { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace bascule
