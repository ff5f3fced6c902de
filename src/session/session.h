// SPDX-License-Identifier: Apache-2.0
// Graphs of one run, planned over one arena and sealed together: parameters, gradients, optimizer states, and a
// workspace that the tapes take turns in.
//
//   Session session;                                   // record
//   Graph& train = session.add_graph(bounds); ...      // model.record(train, ...); derive_backward(train);
//   session.plan(&categories);                         // plan: pure arithmetic, nothing is allocated
//   session.seal(arena, ...);                          // addresses, kernels, tapes
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/distributed/group.h"
#include "src/graph/graph.h"
#include "src/plan/gradient_ring.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/arena.h"
#include "src/runtime/choose_products.h"
#include "src/runtime/tape.h"
#include "src/session/parameter_values.h"
#include "src/update/bucket_sums.h"
#include "src/update/update.h"

namespace bascule {

class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Before the first graph: see ParameterSet::set_groups.
  void set_groups(std::vector<ParameterGroup> groups, std::string body_prefix) {
    parameters_.set_groups(std::move(groups), std::move(body_prefix));
  }
  // Before plan(): whose matrix products the tapes call.
  void set_products(Products products) { choice_ = products; }
  // Before plan(): of the updates. AdamW, if it is not called.
  void set_optimizer(const OptimizerKind& optimizer) { optimizer_ = &optimizer; }
  // Before plan(): an average of the trained parameters is held too, if there is training.
  void set_averaging(bool averages) { averaging_ = averages; }
  // Before plan(): activations may lie where no gradient is written yet. Only where every replay that writes gradients
  // is an update's only one. Has no effect where gradients have a ring.
  void set_activations_in_gradients(bool allowed) { activations_in_gradients_ = allowed; }
  // After plan(): where gradients lie that leave room for activations; null: they leave none.
  const ParameterLayout* layout_with_room() const { return has_room_ ? &layout_ : nullptr; }
  // The graph's number is its place in the order of adding. The first graph with a backward part decides the
  // parameters' order.
  Graph& add_graph(const BatchCounts& bounds, Fields fields);
  const Graph& graph(std::size_t number) const { return *graphs_[number]; }
  Graph& graph(std::size_t number) { return *graphs_[number]; }

  // After recording, and again if a graph has changed. training: gradients and the optimizer's states are held too.
  // Returns the arena's categories of a session: trained and fixed parameters, gradients, each state of the optimizer,
  // norm partials, states of graphs, workspace, scratch of `threads` threads and of their products. With several ranks
  // on a node all but the last four are shared, and there is one range of gradients for each. bucket_bytes: there is
  // one range of gradients' sums, and a ring of buckets of about this size for each (GradientRing). state_nodes: so
  // many nodes of local_ranks ranks each share out the optimizer's states.
  std::vector<PlannedRange> plan(bool training, int threads, int local_ranks = 1,
                                 std::optional<std::size_t> bucket_bytes = std::nullopt, int state_nodes = 1);
  std::size_t workspace_lower_bound_bytes() const;
  // After plan(): of one graph, and the number of the graph that needs most.
  const WorkspacePlan& workspace(std::size_t number) const { return workspaces_[number]; }
  std::size_t largest_workspace() const;
  std::vector<LargestBuffer> largest(std::size_t count) const;
  const ParameterSet& parameters() const { return parameters_; }
  const ParameterLayout& layout() const { return layout_; }
  const StateSet& states() const { return states_; }

  // Before the seal: makes the tapes. The arena was made from a plan that holds plan()'s categories. group: of as many
  // local ranks as were planned for; null: of one.
  void seal(const Arena& arena, const MemoryPlan& plan, const KernelTable& kernels, int threads,
            Group* group = nullptr);

  // plan() and seal() in an arena of its own: for a session of one rank outside a run.
  void seal_alone(bool training, const KernelTable& kernels, int threads);

  // Before the seal, after seal(): gradients are summed over the ranks in buckets of so many bytes while the backward
  // part of tape `number` runs.
  void overlap_reduction(std::size_t number, std::size_t bucket_bytes);

  const Tape& tape(std::size_t number) const { return *tapes_[number]; }
  // The tape of a graph without a backward part, on the averages in place of the trained parameters.
  const Tape& averaged_tape(std::size_t number) const { return *averaged_tapes_[number]; }
  ParameterMemory parameter_memory() const {
    return {&parameters_, &layout_, memory_.trained_parameters, memory_.fixed_parameters};
  }
  float* averages() const { return averages_; }           // laid out like the trained parameters; null: none are held
  float* gradients() const { return memory_.gradients; }  // of this rank
  GradientRing* ring() { return ring_.get(); }            // of the graph with a backward part; null: none was planned
  const OptimizerStates& optimizer_states() const { return optimizer_states_; }  // after seal(), where it trains
  Update& update() { return *update_; }
  GemmLibrary& products() { return *products_; }  // after seal(): for products beside the tapes

 private:
  std::vector<float*> ranges_of_ranks(std::byte* first, std::size_t stride) const;

  Products choice_ = Products::kOurs;
  const OptimizerKind* optimizer_ = &optimizer_kind(Optimizer::kAdamW);
  bool averaging_ = false;
  bool activations_in_gradients_ = false, has_room_ = false;
  ParameterSet parameters_;
  StateSet states_;
  ParameterLayout layout_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<WorkspacePlan> workspaces_;
  bool training_ = false;
  std::size_t trained_graph_ = 0;  // the first with a backward part
  std::optional<GradientRingPlan> ring_plan_;
  StateSharing sharing_;
  std::size_t thread_scratch_bytes_ = 0;
  GemmType product_type_ = GemmType::kFloat32;
  std::unique_ptr<Arena> arena_;  // of seal_alone()
  TapeMemory memory_;
  OptimizerStates optimizer_states_;
  float* averages_ = nullptr;
  std::unique_ptr<GemmLibrary> products_;
  std::vector<std::unique_ptr<Tape>> tapes_, averaged_tapes_;
  std::unique_ptr<Update> update_;
  std::unique_ptr<BucketSums> bucket_sums_;
  std::unique_ptr<GradientRing> ring_;
};

}  // namespace bascule
