// SPDX-License-Identifier: Apache-2.0
#include "src/session/session.h"

#include <algorithm>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/graph/element_types.h"

namespace bascule {
namespace {

constexpr char kTrained[] = "parameters, trained";
constexpr char kFixed[] = "parameters, fixed";
constexpr char kRounded[] = "parameters, bf16";
constexpr char kStates[] = "state";
constexpr char kWorkspace[] = "workspace";
constexpr char kScratch[] = "thread scratch";
constexpr char kProducts[] = "packed operands";

std::size_t bytes_of_floats(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// The checker's word that every state has memory of its own, at any time.
void check_states(const StateLayout& layout) {
  std::vector<BufferRequest> requests;
  Placement placement;
  placement.peak_bytes = layout.bytes;
  for (const StateLayout::Place& place : layout.places) {
    requests.push_back({place.bytes, 0, 0});
    placement.offsets.push_back(place.offset);
  }
  BASCULE_CHECK(!first_overlap(requests, placement).has_value());
}

}  // namespace

Graph& Session::add_graph(const BatchCounts& bounds, Fields fields) {
  graphs_.push_back(std::make_unique<Graph>(parameters_, bounds, std::move(fields), &states_));
  return *graphs_.back();
}

std::vector<PlannedRange> Session::plan(int threads, int local_ranks) {
  std::vector<int> order;
  for (std::size_t i = 0; i < graphs_.size() && order.empty(); ++i) {
    order = gradient_order(*graphs_[i]);
    trained_graph_ = order.empty() ? 0 : i;
  }
  if (!training_ && order.empty()) {
    std::vector<Graph*> graphs;
    for (const auto& graph : graphs_) graphs.push_back(graph.get());
    store_rounded_parameters({graphs.data(), graphs.size()}, &parameters_);
  }
  layout_ =
      lay_out_parameters(parameters_, order, training_ ? training_->options().optimizer->runs : RunDivision::kByRule);
  workspaces_.clear();
  thread_scratch_bytes_ = 0;
  has_room_ = training_ && training_->leaves_room(local_ranks);
  std::size_t workspace = 0;
  for (const auto& graph : graphs_) {
    if (has_bf16_products(*graph)) product_type_ = GemmType::kBf16;
    const bool is_trained = has_room_ && graph == graphs_[trained_graph_];
    const GradientSpace space = is_trained ? find_gradient_space(*graph, layout_) : GradientSpace{};
    workspaces_.push_back(plan_workspace(*graph, is_trained ? &space : nullptr));
    workspace = std::max(workspace, workspaces_.back().bytes);
    thread_scratch_bytes_ = std::max(thread_scratch_bytes_, workspaces_.back().thread_scratch_bytes);
  }
  const bool shared = local_ranks > 1;
  std::vector<PlannedRange> ranges = {{kTrained, bytes_of_floats(layout_.trained_elements), shared},
                                      {kFixed, bytes_of_floats(layout_.fixed_elements), shared}};
  if (layout_.rounded_elements > 0)
    ranges.push_back({kRounded, static_cast<std::size_t>(layout_.rounded_elements) * sizeof(std::uint16_t), shared});
  if (training_) {
    for (PlannedRange& range : training_->plan(*graphs_[trained_graph_], layout_, local_ranks))
      ranges.push_back(std::move(range));
  }
  if (states_.size() > 0) {
    const StateLayout states = lay_out_states(states_);
    check_states(states);
    ranges.push_back({kStates, states.bytes});
  }
  ranges.push_back({kWorkspace, workspace});
  ranges.push_back({kScratch, thread_scratch_bytes_ * static_cast<std::size_t>(threads)});
  ranges.push_back({kProducts, products_bytes(choice_, product_type_, threads)});
  return ranges;
}

std::size_t Session::workspace_lower_bound_bytes() const {
  std::size_t bound = 0;
  for (const WorkspacePlan& plan : workspaces_) bound = std::max(bound, plan.lower_bound_bytes);
  return bound;
}

std::size_t Session::largest_workspace() const {
  std::size_t most = 0;
  for (std::size_t i = 1; i < workspaces_.size(); ++i) most = workspaces_[i].bytes > workspaces_[most].bytes ? i : most;
  return most;
}

std::vector<LargestBuffer> Session::largest(std::size_t count) const {
  const std::size_t most = largest_workspace();
  return workspaces_.empty() ? std::vector<LargestBuffer>{} : largest_buffers(*graphs_[most], workspaces_[most], count);
}

void Session::seal(const Arena& arena, const MemoryPlan& plan, const KernelTable& kernels, int threads, Group* group) {
  memory_.trained_parameters = arena.as<float>(plan[kTrained]);
  memory_.fixed_parameters = arena.as<float>(plan[kFixed]);
  if (layout_.rounded_elements > 0) memory_.rounded_parameters = arena.as<std::uint16_t>(plan[kRounded]);
  if (states_.size() > 0) memory_.states = arena.at(plan[kStates]);
  memory_.workspace = arena.at(plan[kWorkspace]);
  memory_.thread_scratch = arena.at(plan[kScratch]);
  memory_.thread_scratch_bytes = thread_scratch_bytes_;
  if (training_) training_->seal(arena, plan, layout_, kernels, group, &memory_);
  products_ = make_products(choice_, product_type_, kernels, threads, arena.at(plan[kProducts]));
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    tapes_.push_back(std::make_unique<Tape>(*graphs_[i], workspaces_[i], layout_, memory_, kernels, *products_));
  }
  if (!training_) return;
  training_->seal_tape(*tapes_[trained_graph_]);
  if (training_->averages() != nullptr) seal_averaged_tapes(kernels);
}

void Session::seal_averaged_tapes(const KernelTable& kernels) {
  TapeMemory averaged = memory_;
  averaged.trained_parameters = training_->averages();
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    const bool is_trained = i == trained_graph_;
    averaged_tapes_.push_back(
        is_trained ? nullptr
                   : std::make_unique<Tape>(*graphs_[i], workspaces_[i], layout_, averaged, kernels, *products_));
  }
}

void Session::seal_alone(const KernelTable& kernels, int threads) {
  const MemoryPlan memory = make_memory_plan(plan(threads), 0);
  arena_ = std::make_unique<Arena>(memory, HugePages::kTransparent);
  seal(*arena_, memory, kernels, threads);
}

}  // namespace bascule
