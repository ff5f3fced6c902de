// SPDX-License-Identifier: Apache-2.0
// Learning rates. Source: transformers/optimization.py, get_{linear,cosine,constant}_schedule[_with_warmup].
#pragma once

#include <cstdint>

#include "src/settings/settings.h"

namespace bascule {

struct Schedule {
  Scheduler kind = Scheduler::kLinear;
  double learning_rate = 0.0;  // the peak
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;

  // The rate of update `step`, from 0 on; from total_steps on it stays. In float64; constant ignores the warm-up, as
  // the reference does.
  double at(std::int64_t step) const noexcept;
};

}  // namespace bascule
