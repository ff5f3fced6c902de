// SPDX-License-Identifier: Apache-2.0
// Learning rates, and the settings of one update.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/settings/settings.h"
#include "src/update/blocks.h"

namespace bascule {

// Learning rates. Source: transformers/optimization.py, its functions get_*_schedule*; polynomial_jump: NVIDIA's
// PolyWarmUpScheduler, which counts updates from 1 and falls, at the end of the warm-up, from the peak to the rate that
// a schedule without warm-up would have there.

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

// The settings of one update: rates, rules of groups, its observer.

// Beside the rule for all tensors.
struct GroupRule {
  double learning_rate_multiplier = 1.0;
  double weight_decay = -1.0;  // of all tensors of the group; below 0: as the rule for all says
};

// Is shown every block of an update: its values before it, the sum of its gradients. Any thread.
class BlockObserver {
 public:
  virtual ~BlockObserver() = default;
  virtual void see(std::size_t block, const float* values, const float* gradients) const noexcept = 0;
};

struct UpdateSettings {
  double learning_rate = 0.0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.0;
  double max_grad_norm = 0.0;               // 0: no clipping
  std::int64_t step = 1;                    // of bias correction, from 1
  double gradient_factor = 1.0;             // the gradient is this times the sum
  Span<const GroupRule> groups = {};        // by ParameterPiece::group
  const BlockObserver* observer = nullptr;  // null: nobody looks
  double average_share = 0.0;  // of the new weights in their average: 0: none, 1: it becomes a copy of them

  double learning_rate_of(const UpdateBlock& block) const noexcept {
    return learning_rate *
           (block.group < 0 ? 1.0 : groups[static_cast<std::size_t>(block.group)].learning_rate_multiplier);
  }
  double weight_decay_of(const UpdateBlock& block) const noexcept {
    const double of_group = block.group < 0 ? -1.0 : groups[static_cast<std::size_t>(block.group)].weight_decay;
    return of_group >= 0.0 ? of_group : block.decayed ? weight_decay : 0.0;
  }
};

}  // namespace bascule
