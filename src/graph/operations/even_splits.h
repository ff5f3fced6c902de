// SPDX-License-Identifier: Apache-2.0
// Splits that the number of threads decides: only for kernels whose results do not depend on how their tensors are cut
// (kernels/parts.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/span.h"
#include "src/graph/launch.h"

namespace bascule {

// So many tasks that the last round of the threads is full; each has a multiple of `unit`, and no fewer than `least`.
inline TaskSplit evenly(const Launch& l, TaskSplit split, std::int64_t unit, std::int64_t least) {
  const std::int64_t threads = l.threads(), tasks = split.tasks(l.bounds());
  if (tasks == 0) return split;
  const std::int64_t of_all = divide_up(tasks, threads) * threads;
  const std::int64_t even = align_up(divide_up(split.units.at(l.bounds()), of_all), unit);
  split.per_task = std::min(split.per_task, std::max(even, least));
  return split;
}

// Smaller tasks would take less time than dealing them.
constexpr std::int64_t kLeastElements = 2048;

inline TaskSplit by_rows_evenly(const Launch& l, Extent rows, std::int64_t cols) {
  constexpr std::int64_t kUnit = 8;
  return evenly(l, by_rows(rows, cols), kUnit, align_up(divide_up(kLeastElements, cols), kUnit));
}
inline TaskSplit by_elements_evenly(const Launch& l, Extent rows, std::int64_t cols) {
  return evenly(l, by_elements(rows, cols), 64, kLeastElements);
}

}  // namespace bascule
