// SPDX-License-Identifier: Apache-2.0
#include "src/train/schedule.h"

#include <algorithm>
#include <cmath>

namespace bascule {

double Schedule::at(std::int64_t step) const noexcept {
  // A run that is longer than its schedule keeps the rate of the schedule's end.
  const double s = static_cast<double>(std::min(step, total_steps)), warm = static_cast<double>(warmup_steps),
               total = static_cast<double>(total_steps);
  if (kind == Scheduler::kConstant) return learning_rate;
  if (step < warmup_steps) return learning_rate * (s / std::max(1.0, warm));
  const double span = std::max(1.0, total - warm);
  switch (kind) {
    case Scheduler::kLinear: return learning_rate * std::max(0.0, (total - s) / span);
    case Scheduler::kCosine:
      return learning_rate * std::max(0.0, 0.5 * (1.0 + std::cos(3.141592653589793 * (s - warm) / span)));
    default: return learning_rate;
  }
}

}  // namespace bascule
