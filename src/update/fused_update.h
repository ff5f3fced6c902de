// SPDX-License-Identifier: Apache-2.0
// Updating parameters while backward runs, in a run of one process: each as soon as its gradient is final and nothing
// of the replay reads it any more; then the gradient's place is free (plan_update_ring). It gives the bits of an
// update after backward, without clipping. A gradient that is not finite stops it: its parameter and those after it
// keep their values, and the weights are then of two updates.
//
//   fused.begin(settings);                  // of the update
//   ring.replay(threads, replay);           // GradientRing, whose action this is
//   const double norm = fused.finish(threads);
#pragma once

#include <cstdint>
#include <vector>

#include "src/graph/parameters.h"
#include "src/plan/gradient_ring.h"
#include "src/update/gradient_ring.h"
#include "src/update/update.h"

namespace bascule {

class FusedUpdate final : public BucketAction {
 public:
  // Where the parts of the update begin in the trained range, ascending: a part is a parameter. Before the seal.
  static std::vector<std::int64_t> part_begins(const ParameterLayout& layout);

  // plan: plan_update_ring(). ring: of plan.bytes. update: made with part_begins(layout); outlives this.
  FusedUpdate(const GradientRingPlan& plan, const ParameterLayout& layout, float* ring, Update& update);

  // After the seal. settings.max_grad_norm: 0.
  void begin(const UpdateSettings& settings) noexcept;
  bool act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept override;
  RankPhase phase() const noexcept override { return RankPhase::kUpdating; }
  // Parameters without a gradient are updated, too. Returns what Update::run() does.
  double finish(Threads& threads) noexcept;

 private:
  struct Part {
    std::size_t first = 0, end = 0;  // blocks
    std::int64_t elements = 0,
                 room = 0;  // without and with the gap behind them, which is zero where blocks are updated
    float* gradient = nullptr;
  };

  void update_part(const Part& part, std::int64_t step, Threads& threads) noexcept;

  std::vector<Part> parts_;                 // in the order of the buckets
  std::vector<std::size_t> end_of_bucket_;  // the parts behind the last are of parameters without a gradient
  Update& update_;
  UpdateSettings settings_;
  bool is_finite_ = true;
};

}  // namespace bascule
