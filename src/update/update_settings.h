// SPDX-License-Identifier: Apache-2.0
// The settings of one update: rates, rules of groups, its observer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/update/blocks.h"

namespace bascule {

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
