// SPDX-License-Identifier: Apache-2.0
#include "src/session/training.h"

#include <algorithm>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/update/bucket_marks.h"

namespace bascule {
namespace {

constexpr char kGradients[] = "gradients";
constexpr char kRing[] = "gradient ring";
constexpr char kAverages[] = "averaged weights";
constexpr char kPartials[] = "gradient norm";

std::size_t trained_bytes(const ParameterLayout& layout) {
  return static_cast<std::size_t>(layout.trained_elements) * sizeof(float);
}

// From one rank's range to the next one's.
std::size_t gradient_stride(const ParameterLayout& layout) { return align_up(trained_bytes(layout), kPage); }
std::size_t ring_stride(const GradientRingPlan& plan) { return align_up(plan.bytes, kPage); }

}  // namespace

std::vector<PlannedRange> Training::plan(const Graph& graph, const ParameterLayout& layout, int local_ranks) {
  sharing_ = {local_ranks, options_.optimizer->is_shared_out ? options_.state_nodes : 1};
  const bool shared = local_ranks > 1;
  const std::size_t ranks = static_cast<std::size_t>(local_ranks), trained = trained_bytes(layout);
  if (options_.bucket_bytes && shared) ring_plan_ = plan_gradient_ring(graph, layout, *options_.bucket_bytes);
  if (options_.fuses_update) {
    BASCULE_CHECK(local_ranks == 1 && options_.state_nodes == 1 && options_.optimizer->runs == RunDivision::kByMatrix);
    ring_plan_ = plan_update_ring(graph, layout);
    part_begins_ = FusedUpdate::part_begins(layout);
  }
  std::vector<PlannedRange> ranges;
  if (!options_.fuses_update)
    ranges.push_back({kGradients, shared && !ring_plan_ ? ranks * gradient_stride(layout) : trained, shared});
  if (ring_plan_) ranges.push_back({kRing, ranks * ring_stride(*ring_plan_), shared});
  for (PlannedRange& range : plan_states(*options_.optimizer, layout, sharing_, shared))
    ranges.push_back(std::move(range));
  if (options_.averages) ranges.push_back({kAverages, trained, shared});
  ranges.push_back(
      {kPartials, Update::partials_count(layout, *options_.optimizer, part_begins_) * sizeof(double), shared});
  return ranges;
}

std::vector<float*> Training::ranges_of_ranks(std::byte* first, std::size_t stride) const {
  std::vector<float*> ranges;
  ranges.reserve(static_cast<std::size_t>(sharing_.local_ranks));
  for (int rank = 0; rank < sharing_.local_ranks; ++rank)
    ranges.push_back(static_cast<float*>(static_cast<void*>(first + static_cast<std::size_t>(rank) * stride)));
  return ranges;
}

void Training::seal(const Arena& arena, const MemoryPlan& plan, const ParameterLayout& layout,
                    const KernelTable& kernels, Group* group, TapeMemory* memory) {
  layout_ = &layout;
  kernels_ = &kernels;
  group_ = group;
  const std::size_t local_rank = group != nullptr ? static_cast<std::size_t>(group->local_rank()) : 0;
  std::vector<float*> gradients;
  if (ring_plan_) {
    rings_ = ranges_of_ranks(arena.at(plan[kRing]), ring_stride(*ring_plan_));
    gradient_sums_ = options_.fuses_update ? rings_[0] : arena.as<float>(plan[kGradients]);
    gradients = {gradient_sums_};
    memory->gradient_offsets = ring_plan_->ring_offset.data();
  } else {
    gradients = ranges_of_ranks(arena.at(plan[kGradients]), gradient_stride(layout));
  }
  gradients_ = memory->gradients = ring_plan_ ? rings_[local_rank] : gradients[local_rank];
  states_ = seal_states(*options_.optimizer, layout, sharing_, arena, plan);
  update_ = std::make_unique<Update>(layout, memory->trained_parameters, std::move(gradients), states_,
                                     arena.as<double>(plan[kPartials]), kernels, group, part_begins_);
  if (options_.averages) averages_ = arena.as<float>(plan[kAverages]);
  update_->keep_average(averages_);
}

void Training::seal_tape(const Tape& tape) {
  tape_ = &tape;
  if (!ring_plan_) return;
  if (options_.fuses_update) {
    fused_ = std::make_unique<FusedUpdate>(*ring_plan_, *layout_, gradients_, *update_);
    ring_ = std::make_unique<GradientRing>(*ring_plan_, tape, gradients_, group_, *fused_);
    return;
  }
  bucket_sums_ =
      std::make_unique<BucketSums>(*ring_plan_, std::move(rings_), group_->local_rank(), gradient_sums_, *kernels_);
  ring_ = std::make_unique<GradientRing>(*ring_plan_, tape, gradients_, group_, *bucket_sums_);
}

void Training::overlap_reduction(std::size_t bucket_bytes) {
  const std::int64_t blocks =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(bucket_bytes / sizeof(float)) / kUpdateBlockElements);
  update_->overlap(blocks, bucket_marks(tape_->steps_until_final(), *layout_, update_->bucket_ends(blocks)));
}

}  // namespace bascule
