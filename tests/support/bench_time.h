// SPDX-License-Identifier: Apache-2.0
// What the measuring programs share: a clock, and the median of their repeats.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bascule {

// one_thread: processor time of the calling thread, which other programs do not lengthen; else time on the wall.
inline double seconds_of(bool one_thread) {
  timespec now{};
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The upper one of two in the middle. values: at least one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace bascule
