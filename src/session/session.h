// SPDX-License-Identifier: Apache-2.0
// Graphs of one run in one arena, and what trains of them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/distributed/group.h"
#include "src/graph/graph.h"
#include "src/plan/gradient_ring.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/arena.h"
#include "src/runtime/tape.h"
#include "src/session/parameter_values.h"
#include "src/update/gradient_ring.h"
#include "src/update/optimizer_states.h"
#include "src/update/update.h"

namespace bascule {

// The part of a session that trains: gradients, the optimizer's states, the average of the weights, and what updates
// them. A session that does not train has none of it.

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

class Training : NonCopyable {
 public:
  explicit Training(const TrainingOptions& options) : options_(options) {}

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

  // Of the memory that the ranks of a node share, what this rank alone works on, or works on most: its gradients, and
  // all of Update::own_memory(). After overlap_reduction().
  std::vector<Span<std::byte>> own_memory() const;

  // Before the first step: gradients are summed over the ranks in buckets of so many bytes while the backward part of
  // the tape runs.
  void overlap_reduction(std::size_t bucket_bytes);
  float* gradients() const { return gradients_; }  // of this rank; with a ring: that
  float* averages() const { return averages_; }    // laid out like the trained parameters; null: none are held
  bool has_ring() const { return ring_ != nullptr; }
  const OptimizerStates& optimizer_states() const { return states_; }
  FusedUpdate* fused() { return fused_.get(); }  // null: parameters are updated when backward has run
  Update& update() { return *update_; }

  // An update, wherever its gradients lie: in a range of each rank, in a ring that is summed over the ranks, or in one
  // from which parameters are updated. By all ranks; after the seal.
  //
  //   training.begin(settings);                                    // before the last replay that writes gradients
  //   if (!training.replay(threads, replay)) ...                   // each micro-batch; false: another rank failed
  //   const double norm = training.finish(threads, settings);      // as Update::run()

  void begin(const UpdateSettings& settings) noexcept;
  [[nodiscard]] bool replay(Threads& threads, const Replay& replay) noexcept;
  // For a rank whose batch is empty: it contributes zeros. first: it is the update's first micro-batch.
  [[nodiscard]] bool replay_without_samples(Threads& threads, bool first) noexcept;
  double finish(Threads& threads, const UpdateSettings& settings) noexcept;
  // Time that the last replay spent summing gradients, or updating by them.
  double reduction_seconds() const noexcept { return ring_ != nullptr ? ring_->reduction_seconds() : 0.0; }

 private:
  std::vector<float*> ranges_of_ranks(std::byte* first, std::size_t stride) const;

  const TrainingOptions options_;
  StateSharing sharing_;
  std::optional<GradientRingPlan> ring_plan_;
  std::vector<std::int64_t> part_begins_;  // of a fused update
  const ParameterLayout* layout_ = nullptr;
  const KernelTable* kernels_ = nullptr;
  Group* group_ = nullptr;
  float *gradients_ = nullptr, *averages_ = nullptr;
  float* gradient_sums_ = nullptr;  // with a ring: of all ranks
  std::vector<float*> rings_;       // by local rank
  OptimizerStates states_;
  const Tape* tape_ = nullptr;
  std::unique_ptr<Update> update_;
  std::unique_ptr<BucketSums> bucket_sums_;
  std::unique_ptr<FusedUpdate> fused_;
  std::unique_ptr<GradientRing> ring_;
};

// By graph: its number in the session.
using Tapes = std::vector<std::unique_ptr<Tape>>;

// Graphs of one run, planned over one arena and sealed together: parameters, states of graphs, a workspace that the
// tapes take turns in, and, where the session trains, gradients and all that updates the parameters.
//
//   Session session;                                          // record
//   Graph& train = session.add_graph(bounds, fields); ...     // model.record(train, ...); derive_backward(train);
//   session.train(options);                                   // only where it trains
//   categories = session.plan(threads);                       // plan: pure arithmetic, nothing is allocated
//   session.seal(arena, ...);                                 // addresses, kernels, tapes

class Session : NonCopyable {
 public:
  // Before the first graph: see ParameterSet::set_groups.
  void set_groups(std::vector<ParameterGroup> groups, std::string body_prefix) {
    parameters_.set_groups(std::move(groups), std::move(body_prefix));
  }
  // Before plan(): whose matrix products the tapes call.
  void set_products(Products products) { choice_ = products; }
  // Before plan(), and again before another plan(): the first graph with a backward part is trained.
  void train(const TrainingOptions& options) { training_ = std::make_unique<Training>(options); }
  // After plan(): where gradients lie that leave room for activations; null: they leave none.
  const ParameterLayout* layout_with_room() const { return has_room_ ? &layout_ : nullptr; }
  // The graph's number is its place in the order of adding. The first graph with a backward part decides the
  // parameters' order.
  Graph& add_graph(const BatchCounts& bounds, Fields fields);
  std::size_t graphs() const { return graphs_.size(); }
  const Graph& graph(std::size_t number) const { return *graphs_[number]; }
  Graph& graph(std::size_t number) { return *graphs_[number]; }

  // Allows packing (choose_packed_parameters()). Before seal(), in a session without gradients; then call pack(), once,
  // after loading and before the first replay. Afterwards only tapes may read parameters.
  void allow_packing() { allows_packing_ = true; }
  void pack(Threads& threads);
  // After recording, and again if a graph has changed. Returns the arena's categories of a session: trained and fixed
  // parameters, those stored as bf16, those of training, states of graphs, workspace, scratch of `threads` threads and
  // of their products.
  // With several ranks on a node all but the last four are shared; so they are by several arenas of one process.
  std::vector<PlannedRange> plan(int threads, int local_ranks = 1);
  std::size_t workspace_lower_bound_bytes() const;
  // After plan(): of one graph, and the number of the graph that needs most.
  const WorkspacePlan& workspace(std::size_t number) const { return workspaces_[number]; }
  std::size_t largest_workspace() const;
  std::vector<LargestBuffer> largest(std::size_t count) const;
  const ParameterSet& parameters() const { return parameters_; }
  const ParameterLayout& layout() const { return layout_; }
  const StateSet& states() const { return states_; }

  // Before the seal: makes the tapes. The arena was made from a plan that holds plan()'s categories. group: of as many
  // local ranks as were planned for; null: of one. Where the session does not train, again for each further arena over
  // the same shared memory, with at most the threads that were planned for: tapes of different arenas may be replayed
  // at the same time.
  void seal(const Arena& arena, const MemoryPlan& plan, const KernelTable& kernels, int threads,
            Group* group = nullptr);

  // plan() and seal() in an arena of its own: for a session of one rank outside a run.
  void seal_alone(const KernelTable& kernels, int threads);

  const Tape& tape(std::size_t number) const { return *tapes()[number]; }
  // arena: its number in the order of seal().
  const Tapes& tapes(std::size_t arena = 0) const { return tapes_[arena]; }
  // Of graphs without a backward part, on the averages in place of the trained parameters; null for the others.
  const Tapes& averaged_tapes() const { return averaged_tapes_; }
  ParameterMemory parameter_memory() const {
    return {&parameters_, &layout_, memory_.trained_parameters, memory_.fixed_parameters, memory_.rounded_parameters};
  }
  bool trains() const { return training_ != nullptr; }
  // After seal(), where the session trains.
  Training& training() const { return *training_; }
  GemmLibrary& products() { return *products_.front(); }  // after seal(): for products beside the tapes

 private:
  std::vector<Graph*> all_graphs() const;
  void seal_averaged_tapes(const KernelTable& kernels);

  Products choice_ = Products::kOurs;
  bool has_room_ = false;
  bool allows_packing_ = false;
  bool is_packed_ = false;
  std::vector<int> packed_;  // parameters; after seal()
  const KernelTable* kernels_ = nullptr;
  ParameterSet parameters_;
  StateSet states_;
  ParameterLayout layout_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<WorkspacePlan> workspaces_;
  std::size_t trained_graph_ = 0;  // the first with a backward part
  std::size_t thread_scratch_bytes_ = 0;
  GemmType product_type_ = GemmType::kFloat32;
  std::unique_ptr<Arena> arena_;  // of seal_alone()
  TapeMemory memory_;
  std::vector<std::unique_ptr<GemmLibrary>> products_;  // by arena
  std::vector<Tapes> tapes_;                            // the same
  Tapes averaged_tapes_;
  std::unique_ptr<Training> training_;  // null: the session does not train
};

}  // namespace bascule
