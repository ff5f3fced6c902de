// SPDX-License-Identifier: Apache-2.0
// Learning rates. Source: transformers/optimization.py, its functions get_*_schedule*.
#pragma once

#include <cstdint>

#include "src/settings/settings.h"

namespace bascule {

struct Schedule {
  Scheduler kind = Scheduler::kLinear;
  double learning_rate = 0.0;  // the peak
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;
  double power = 1.0, end = 1e-7;  // polynomial
  std::int64_t cycles = 1;         // cosine_with_restarts
  std::int64_t timescale = 0;      // inverse_sqrt; 0: warmup_steps, or 10,000 where that is 0
  double min_ratio = 0.0;          // cosine_with_min_lr

  // The rate of update `step`, from 0 on; from total_steps on it stays. In float64; constant ignores the warm-up, as
  // the reference does.
  double at(std::int64_t step) const noexcept;
};

}  // namespace bascule
