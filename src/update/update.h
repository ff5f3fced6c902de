// SPDX-License-Identifier: Apache-2.0
// The update: the gradient's norm, the optimizer's passes, the average of the weights; and updates while backward runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/distributed/bucket_reducer.h"
#include "src/distributed/group.h"
#include "src/graph/parameters.h"
#include "src/plan/gradient_ring.h"
#include "src/runtime/threads.h"
#include "src/update/blocks.h"
#include "src/update/gradient_ring.h"
#include "src/update/node_lane.h"
#include "src/update/optimizer_states.h"
#include "src/update/schedule.h"

namespace bascule {

// The average of the weights. After the seal.

// averages += share * (values - averages), `count` of each; share 1: they become a copy of the values.
void average_weights(const KernelTable& kernels, float* averages, const float* values, std::int64_t count,
                     double share) noexcept;

// The norm of the gradient, summed over blocks in their order, and what clipping by it leaves. After the seal.

double sum_in_order(Span<const double> of_blocks) noexcept;
// The L2 norm of the gradient, before clipping; squares: of the sum, by block.
double gradient_norm(Span<const double> squares, const UpdateSettings& settings) noexcept;
// The gradients' sum times this is the gradient, clipped.
float gradient_scale(double norm, const UpdateSettings& settings) noexcept;

// The update: gradient norm, clipping, the optimizer's passes and the average of the weights, each over the blocks of
// the trained range (blocks.h). The norm's blocks are summed in their order: the same bits for any number of threads.
//
// With several ranks on a node each does this for its own slice of the blocks: it sums the ranks' gradients, in a
// fixed tree over the ranks, into its own range, and updates weights that all of them map. Between the passes the ranks
// wait for each other. With buckets a slice is a part of each bucket, and much of the sum is made while backward runs:
// the same bits.
//
// With several nodes each rank then sums its slice with the ranks that have the same slice on the other nodes, and
// every node updates its own weights: the same sums, and so the same weights on all. Where the nodes share out the
// optimizer's states, a block is summed, measured and updated by the node that holds its states, and the others are
// sent the weights (node_lane.h).

class Update : NonCopyable {
 public:
  // parameters: a range of layout.trained_elements floats; partials: partials_count() doubles; both and the states'
  // ranges are shared by the ranks of a node. gradients: such a range of each rank; or one that all share, where their
  // sum is when run() is called. states: of a kind whose division the layout has; outlive this. group: null for a run
  // of one process.
  Update(const ParameterLayout& layout, float* parameters, std::vector<float*> gradients, const OptimizerStates& states,
         double* partials, const KernelTable& kernels, Group* group = nullptr,
         Span<const std::int64_t> part_begins = {});
  ~Update();

  // Before the seal, of a group with several nodes: how sums travel. memory: NodeLane::memory_bytes(), of this rank.
  void connect(Span<std::byte> memory, bool is_bf16);
  // Before the seal: a range of layout.trained_elements floats, shared by the ranks of a node, which averages the
  // weights.
  void keep_average(float* averages) { averages_ = averages; }
  // Before the seal, after connect(), keep_average() and overlap(): memory that the ranks of a node share and of which
  // this rank alone works on these parts: states and averages of its blocks, and their gradients where all share them.
  std::vector<Span<std::byte>> own_memory() const;
  // Before the seal: sums bucket by bucket from now on. marks: by element of bucket_ends(), see BucketReducer.
  void overlap(std::int64_t blocks_of_bucket, const std::vector<std::int64_t>& marks);
  // Where each bucket of so many blocks ends, in elements of the range.
  std::vector<std::int64_t> bucket_ends(std::int64_t blocks_of_bucket) const;
  // After the seal: the last micro-batch of update `number`, from 1, begins.
  void begin(std::int64_t number) noexcept;
  // Instead of run(), where the update does not come about: nothing works on the gradients any more when it returns.
  void rest() noexcept;

  // Returns the L2 norm, before clipping, of the gradient. If it is not finite nothing is changed
  // (NaN too where another rank failed). By all ranks together. After the seal.
  double run(Threads& threads, const UpdateSettings& settings) noexcept;
  // Time of the last run for summing and measuring, until the slowest rank had done its part.
  double reduction_seconds() const noexcept { return reduction_seconds_; }
  // The part of it that waited for other nodes.
  double wire_seconds() const noexcept { return lane_ ? lane_->wire_seconds() : 0.0; }
  // By this rank, to and from other nodes, since the seal.
  std::int64_t sent_bytes() const noexcept { return lane_ ? lane_->sent_bytes() : 0; }
  std::int64_t received_bytes() const noexcept { return lane_ ? lane_->received_bytes() : 0; }

  // In place of run(), in a run of one process that updates its parameters part by part (FusedUpdate); after the seal.
  // A part: blocks [first, end), whose gradients lie end to end from `gradient` on. If they are not finite nothing is
  // changed and the norm of the parts is not finite either.
  bool run_part(Threads& threads, const UpdateSettings& settings, std::size_t first, std::size_t end, float* gradient,
                std::int64_t step) noexcept;
  // When every block has been in a part: as run() returns it.
  double norm_of_parts(const UpdateSettings& settings) const noexcept;
  const std::vector<UpdateBlock>& blocks() const { return blocks_; }

  // Whether all trained parameters are finite; by one rank alone. After the seal.
  bool parameters_are_finite(Threads& threads) noexcept;

  // part_begins: see column_room(); the constructor is given the same.
  static std::size_t partials_count(const ParameterLayout& layout, const OptimizerKind& kind,
                                    Span<const std::int64_t> part_begins = {}) {
    const std::size_t floats = kind.measures_columns ? static_cast<std::size_t>(column_room(layout, part_begins)) : 0;
    return block_count(layout) * (1 + kind.measures) + (floats + 1) / 2;
  }

 private:
  void take_slices(std::int64_t blocks_of_bucket);
  static void sum_bucket(void* self, std::size_t bucket) noexcept;
  static bool move_buckets(void* self, std::size_t summed) noexcept;
  void sum_over_ranks(const UpdateBlock& block) const noexcept;
  bool measure_gradients(Threads& threads) noexcept;
  bool move_weights(Threads& threads, const UpdateSettings& settings, float gradient_scale) noexcept;
  void move_block(OptimizerPass pass, std::size_t number, const UpdateSettings& settings, float gradient_scale,
                  float* gradient) const noexcept;
  void average(Threads& threads, double share) const noexcept;
  // Measures of the gradient and of the optimizer: of all blocks, on every rank.
  bool merge(std::size_t first, std::size_t count) noexcept;
  bool wait_for_ranks() const noexcept { return group_ == nullptr || group_->local_barrier(); }
  float* columns_of(std::size_t number) const noexcept {
    void* const first = partials_ + (1 + states_.kind->measures) * blocks_.size();
    return static_cast<float*>(first) + columns_of_block_[number];
  }
  const UpdateBlock& block(std::int32_t number) const noexcept { return blocks_[static_cast<std::size_t>(number)]; }
  // By block: 0: squares of the gradient; 1 + m: the optimizer's measure m.
  Span<double> partials(std::size_t which) const noexcept {
    return {partials_ + which * blocks_.size(), blocks_.size()};
  }

  const std::vector<UpdateBlock> blocks_;
  std::vector<std::size_t> first_of_run_;       // block, by run, and the number of blocks
  std::vector<std::int64_t> elements_of_run_;   // of its tensor, in a layout by matrix
  std::vector<std::int64_t> columns_of_block_;  // where its room begins; empty unless the kind measures columns
  OwnBlocks own_;
  std::vector<std::int32_t> updated_;  // of own_: those that this node updates

  float* parameters_;
  std::vector<float*> gradients_;  // by local rank
  float* own_gradients_;
  const OptimizerStates& states_;
  double* partials_;
  float* averages_ = nullptr;  // null: none are kept
  const KernelTable& kernels_;
  Group* group_;
  NodeLane::Options lane_options_;
  std::unique_ptr<NodeLane> lane_;          // null: one node
  std::unique_ptr<BucketReducer> reducer_;  // goes before what it works on
  double reduction_seconds_ = 0.0;
};

// Updating parameters while backward runs, in a run of one process: each as soon as its gradient is final and nothing
// of the replay reads it any more; then the gradient's place is free (plan_update_ring). It gives the bits of an
// update after backward, without clipping. A gradient that is not finite stops it: its parameter and those after it
// keep their values, and the weights are then of two updates.
//
//   fused.begin(settings);                  // of the update
//   ring.replay(threads, replay);           // GradientRing, whose action this is
//   const double norm = fused.finish(threads);

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
