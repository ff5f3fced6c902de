// SPDX-License-Identifier: Apache-2.0
// Learning rates. Source: transformers/optimization.py, its functions get_*_schedule*; polynomial_jump: NVIDIA's
// PolyWarmUpScheduler, which counts updates from 1 and falls, at the end of the warm-up, from the peak to the rate that
// a schedule without warm-up would have there.
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
  double start_ratio = 0.0;        // of the rate at the beginning of the warm-up
  double warmup_share = 0.0;       // polynomial_jump: of total_steps, not rounded

  // The rate of update `step`, from 0 on; from total_steps on it stays. In float64; constant ignores the warm-up, as
  // the reference does.
  double at(std::int64_t step) const noexcept;
};

}  // namespace bascule
