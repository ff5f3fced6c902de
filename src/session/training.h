// SPDX-License-Identifier: Apache-2.0
// The part of a session that trains: gradients, the optimizer's states, the average of the weights, and what updates
// them. A session that does not train has none of it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/table.h"
#include "src/distributed/group.h"
#include "src/graph/graph.h"
#include "src/plan/gradient_ring.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/arena.h"
#include "src/runtime/tape.h"
#include "src/update/bucket_sums.h"
#include "src/update/fused_update.h"
#include "src/update/gradient_ring.h"
#include "src/update/optimizer_states.h"
#include "src/update/update.h"

namespace bascule {

struct TrainingOptions {
  const OptimizerKind* optimizer = &optimizer_kind(Optimizer::kAdamW);
  // An average of the trained parameters is held too.
  bool averages = false;
  // Activations may lie where no gradient is written yet. Only where every replay that writes gradients is an update's
  // only one. Has no effect where gradients have a ring.
  bool activations_in_gradients = false;
  // With several ranks on a node: one range of gradients' sums for all, and a ring of buckets of about this size for
  // each (GradientRing). None: a range of gradients for each rank.
  std::optional<std::size_t> bucket_bytes;
  // So many nodes share out the optimizer's states.
  int state_nodes = 1;
  // Parameters are updated while backward runs (FusedUpdate). Only of one rank, whose every replay that writes
  // gradients is an update's only one, with an optimizer that divides the range by matrix.
  bool fuses_update = false;
};

class Training {
 public:
  explicit Training(const TrainingOptions& options) : options_(options) {}
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // For the session's plan and seal.

  const TrainingOptions& options() const { return options_; }
  // Whether activations have room in the gradients, with so many ranks on a node.
  bool leaves_room(int local_ranks) const {
    return options_.activations_in_gradients && !options_.fuses_update && !(options_.bucket_bytes && local_ranks > 1);
  }
  // graph: with a backward part. Returns the arena's categories: gradients, ring, states of the optimizer, averages,
  // partial sums of the norm.
  std::vector<PlannedRange> plan(const Graph& graph, const ParameterLayout& layout, int local_ranks);
  // layout and kernels: outlive this. memory: has the parameters' addresses, and is told those of this rank's
  // gradients, for the tapes. group: null for a run of one process.
  void seal(const Arena& arena, const MemoryPlan& plan, const ParameterLayout& layout, const KernelTable& kernels,
            Group* group, TapeMemory* memory);
  // After seal(): the tape of the graph that was planned.
  void seal_tape(const Tape& tape);

  // After the session's seal().

  // Before the first step: gradients are summed over the ranks in buckets of so many bytes while the backward part of
  // the tape runs.
  void overlap_reduction(std::size_t bucket_bytes);
  float* gradients() const { return gradients_; }  // of this rank; with a ring: that
  float* averages() const { return averages_; }    // laid out like the trained parameters; null: none are held
  GradientRing* ring() { return ring_.get(); }     // null: none was planned
  const OptimizerStates& optimizer_states() const { return states_; }
  FusedUpdate* fused() { return fused_.get(); }  // null: parameters are updated when backward has run
  Update& update() { return *update_; }

 private:
  std::vector<float*> ranges_of_ranks(std::byte* first, std::size_t stride) const;

  const TrainingOptions options_;
  StateSharing sharing_;
  std::optional<GradientRingPlan> ring_plan_;
  std::vector<std::int64_t> part_begins_;  // of a fused update
  const ParameterLayout* layout_ = nullptr;
  const KernelTable* kernels_ = nullptr;
  Group* group_ = nullptr;
  float* gradients_ = nullptr;
  float* averages_ = nullptr;
  float* gradient_sums_ = nullptr;  // with a ring: of all ranks
  std::vector<float*> rings_;       // by local rank
  OptimizerStates states_;
  const Tape* tape_ = nullptr;
  std::unique_ptr<Update> update_;
  std::unique_ptr<BucketSums> bucket_sums_;
  std::unique_ptr<FusedUpdate> fused_;
  std::unique_ptr<GradientRing> ring_;
};

}  // namespace bascule
