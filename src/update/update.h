// SPDX-License-Identifier: Apache-2.0
// The update: gradient norm, clipping, AdamW or LAMB, and the average of the weights, as one tape over the trained
// range. Blocks have a fixed size and begin at fixed offsets; the norm's blocks are summed in their order: the same
// bits for any number of threads.
//
// With several ranks on a node each does this for its own slice of the blocks: it sums the ranks' gradients, in a
// fixed tree over the ranks, into its own range, and updates weights that all of them map. Between the passes the ranks
// wait for each other. With buckets a slice is a part of each bucket, and much of the sum is made while backward runs:
// the same bits.
//
// With several nodes each rank then sums its slice with the ranks that have the same slice on the other nodes, and
// every node updates its own weights: the same sums, and so the same weights on all. Where the nodes share out the
// moments, a block is summed, measured and updated by the node that holds its moments, and the others are sent the
// weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/distributed/bucket_reducer.h"
#include "src/distributed/group.h"
#include "src/distributed/slices.h"
#include "src/graph/parameters.h"
#include "src/runtime/threads.h"
#include "src/settings/settings.h"
#include "src/update/moment_shards.h"

namespace bascule {

// Beside the rule for all tensors.
struct GroupRule {
  double learning_rate_multiplier = 1.0;
  double weight_decay = -1.0;  // of all tensors of the group; below 0: as the rule for all says
};

// Is shown every block of an update: the values before it, the gradients' sum. Ranges as Update has them; any thread.
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
};

class LaneReduction;  // its header is MPI's

class Update {
 public:
  static constexpr std::int64_t kBlock = 1 << 16;  // elements
  static constexpr std::size_t kMostLocalRanks = 512;

  struct Block {
    std::int64_t offset = 0, count = 0;
    bool decayed = false;
    int group = -1;
    std::int32_t run = 0;  // of the layout
  };
  static std::vector<Block> cut(const ParameterLayout& layout);

  // parameters, exp_avg, exp_avg_sq: ranges of layout.trained_elements floats; partials: partials_count() doubles; all
  // shared by the ranks of a node. gradients: a range of each rank; or one that all share, where their sum is when
  // run() is called. group: null for a run of one process. Where nodes share out the moments (connect) the ranges of
  // these are MomentShards::elements long. kLamb: every run of the layout is one tensor (lay_out_parameters), and moves
  // in proportion to its norm (kernels/lamb.h).
  Update(const ParameterLayout& layout, float* parameters, std::vector<float*> gradients, float* exp_avg,
         float* exp_avg_sq, double* partials, const KernelTable& kernels, Group* group = nullptr,
         Optimizer optimizer = Optimizer::kAdamW);
  ~Update();
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;

  // Before the seal, of a group with several nodes: how sums travel. memory: lane_memory_bytes(), of this rank.
  static std::size_t lane_memory_bytes(int nodes, bool is_bf16);
  // shards: of the moments, which are then one node's; null: every node holds all.
  void connect(Span<std::byte> memory, bool is_bf16, const MomentShards* shards = nullptr);
  // Before the seal: a range of layout.trained_elements floats, shared by the ranks of a node, which averages the
  // weights.
  void keep_average(float* averages) { averages_ = averages; }
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
  double wire_seconds() const noexcept { return wire_seconds_; }
  // By this rank, to and from other nodes, since the seal.
  std::int64_t sent_bytes() const noexcept;
  std::int64_t received_bytes() const noexcept;

  // Whether all trained parameters are finite; by one rank alone. After the seal.
  bool parameters_are_finite(Threads& threads) noexcept;

  static std::size_t block_count(const ParameterLayout& layout);
  static std::size_t partials_count(const ParameterLayout& layout, Optimizer optimizer) {
    return block_count(layout) * (optimizer == Optimizer::kLamb ? 3 : 1);
  }

 private:
  // Steps of the tape; `arguments` is the Update itself.
  static std::int64_t updated_tasks(const void* arguments, const Replay& replay);
  static std::int64_t unsummed_tasks(const void* arguments, const Replay& replay);
  static std::int64_t all_tasks(const void* arguments, const Replay& replay);
  static void sum_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static void norm_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static void parameter_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static void adamw_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static void direction_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static void lamb_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  static std::int64_t own_tasks(const void* arguments, const Replay& replay);
  static void average_block(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  void take_slices(std::int64_t blocks_of_bucket);
  void make_lane();
  static void sum_bucket(void* self, std::size_t bucket) noexcept;
  static bool move_buckets(void* self, std::size_t summed) noexcept;
  bool sum_over_nodes(Threads& threads) noexcept;
  bool merge_partials(double* partials) noexcept;
  bool move_by_lamb(Threads& threads) noexcept;
  double trust_ratio(std::int32_t run, double weight_decay) const noexcept;
  std::size_t moments_of(std::size_t block) const noexcept;
  double learning_rate_of(const Block& block) const noexcept;
  double weight_decay_of(const Block& block) const noexcept;
  bool move_all(LaneReduction& lane) noexcept;
  bool spread_weights() noexcept;
  void sum_over_ranks(const Block& block) const noexcept;
  double sum_of_partials() const noexcept;
  bool wait_for_ranks() const noexcept { return group_ == nullptr || group_->local_barrier(); }

  std::vector<Block> blocks_;
  std::vector<std::int32_t> own_;            // blocks of this rank, in the order of summing
  std::vector<std::int32_t> owners_;         // of own_: nodes
  std::vector<std::int32_t> updated_;        // of own_: those that this node updates
  std::vector<std::int64_t> own_of_bucket_;  // bucket b has those from [b] to [b + 1] of own_
  std::int64_t summed_ = 0;                  // of own_: these are sums already

  Step sum_step_, norm_step_, adamw_step_, direction_step_, lamb_step_, average_step_, parameter_step_;
  float* parameters_;
  std::vector<float*> gradients_;  // by local rank
  float* own_gradients_;
  float* exp_avg_;
  float* exp_avg_sq_;
  float* averages_ = nullptr;   // null: none are kept
  double* partials_;            // by block: squares of the gradient, and for LAMB of the parameters and the direction
  double* parameter_partials_;  // null: AdamW
  double* direction_partials_;
  std::vector<std::int32_t> first_of_run_;  // block, by run, and the number of blocks
  const KernelTable& kernels_;
  Group* group_;
  double reduction_seconds_ = 0.0, wire_seconds_ = 0.0;
  UpdateSettings settings_;
  double correction1_ = 1.0;  // of the first moment, for its bias
  float inverse_sqrt_correction2_ = 1.0f, gradient_scale_ = 1.0f;
  Span<std::byte> lane_memory_;
  bool is_bf16_ = false;                  // between nodes
  const MomentShards* shards_ = nullptr;  // null: this node holds all moments
  std::vector<double> lane_partials_;     // of own_, where moments are shared out
  std::unique_ptr<LaneReduction> lane_, spread_;
  std::unique_ptr<BucketReducer> reducer_;  // goes before what it works on
};

}  // namespace bascule
