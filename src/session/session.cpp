// SPDX-License-Identifier: Apache-2.0
#include "src/session/session.h"

#include <algorithm>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/graph/element_types.h"
#include "src/update/bucket_marks.h"

namespace bascule {
namespace {

constexpr char kTrained[] = "parameters, trained";
constexpr char kFixed[] = "parameters, fixed";
constexpr char kGradients[] = "gradients";
constexpr char kRing[] = "gradient ring";
constexpr char kAverages[] = "averaged weights";
constexpr char kPartials[] = "gradient norm";
constexpr char kStates[] = "state";
constexpr char kWorkspace[] = "workspace";
constexpr char kScratch[] = "thread scratch";
constexpr char kProducts[] = "packed operands";

std::size_t bytes_of_floats(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// From one rank's range of gradients to the next one's.
std::size_t gradient_stride(const ParameterLayout& layout) {
  return align_up(bytes_of_floats(layout.trained_elements), kPage);
}

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

std::size_t ring_stride(const GradientRingPlan& plan) { return align_up(plan.bytes, kPage); }

}  // namespace

Graph& Session::add_graph(const BatchCounts& bounds, Fields fields) {
  graphs_.push_back(std::make_unique<Graph>(parameters_, bounds, std::move(fields), &states_));
  return *graphs_.back();
}

std::vector<PlannedRange> Session::plan(bool training, int threads, int local_ranks,
                                        std::optional<std::size_t> bucket_bytes, int state_nodes) {
  training_ = training;
  sharing_ = {local_ranks, state_nodes};
  const bool shared = local_ranks > 1;
  std::vector<int> order;
  for (std::size_t i = 0; i < graphs_.size() && order.empty(); ++i) {
    order = gradient_order(*graphs_[i]);
    trained_graph_ = order.empty() ? 0 : i;
  }
  layout_ = lay_out_parameters(parameters_, order, optimizer_->runs);
  workspaces_.clear();
  thread_scratch_bytes_ = 0;
  has_room_ = training && activations_in_gradients_ && !(bucket_bytes && shared);
  std::size_t workspace = 0;
  for (const auto& graph : graphs_) {
    if (has_bf16_products(*graph)) product_type_ = GemmType::kBf16;
    const bool is_trained = has_room_ && graph == graphs_[trained_graph_];
    const GradientSpace space = is_trained ? find_gradient_space(*graph, layout_) : GradientSpace{};
    workspaces_.push_back(plan_workspace(*graph, is_trained ? &space : nullptr));
    workspace = std::max(workspace, workspaces_.back().bytes);
    thread_scratch_bytes_ = std::max(thread_scratch_bytes_, workspaces_.back().thread_scratch_bytes);
  }
  const std::size_t trained = bytes_of_floats(layout_.trained_elements);
  std::vector<PlannedRange> ranges = {{kTrained, trained, shared},
                                      {kFixed, bytes_of_floats(layout_.fixed_elements), shared}};
  if (training) {
    const std::size_t ranks = static_cast<std::size_t>(local_ranks);
    if (bucket_bytes && shared) ring_plan_ = plan_gradient_ring(*graphs_[trained_graph_], layout_, *bucket_bytes);
    ranges.push_back({kGradients, shared && !ring_plan_ ? ranks * gradient_stride(layout_) : trained, shared});
    if (ring_plan_) ranges.push_back({kRing, ranks * ring_stride(*ring_plan_), shared});
    for (PlannedRange& range : plan_states(*optimizer_, layout_, sharing_, shared)) ranges.push_back(std::move(range));
    if (averaging_) ranges.push_back({kAverages, trained, shared});
    ranges.push_back({kPartials, Update::partials_count(layout_, *optimizer_) * sizeof(double), shared});
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

std::vector<float*> Session::ranges_of_ranks(std::byte* first, std::size_t stride) const {
  std::vector<float*> ranges;
  for (int rank = 0; rank < sharing_.local_ranks; ++rank)
    ranges.push_back(static_cast<float*>(static_cast<void*>(first + static_cast<std::size_t>(rank) * stride)));
  return ranges;
}

void Session::seal(const Arena& arena, const MemoryPlan& plan, const KernelTable& kernels, int threads, Group* group) {
  memory_.trained_parameters = arena.as<float>(plan[kTrained]);
  memory_.fixed_parameters = arena.as<float>(plan[kFixed]);
  if (states_.size() > 0) memory_.states = arena.at(plan[kStates]);
  memory_.workspace = arena.at(plan[kWorkspace]);
  memory_.thread_scratch = arena.at(plan[kScratch]);
  memory_.thread_scratch_bytes = thread_scratch_bytes_;
  const std::size_t local_rank = group != nullptr ? static_cast<std::size_t>(group->local_rank()) : 0;
  std::vector<float*> gradients, rings;
  if (training_) {
    if (ring_plan_) {
      gradients = {arena.as<float>(plan[kGradients])};
      rings = ranges_of_ranks(arena.at(plan[kRing]), ring_stride(*ring_plan_));
      memory_.gradient_offsets = ring_plan_->ring_offset.data();
    } else {
      gradients = ranges_of_ranks(arena.at(plan[kGradients]), gradient_stride(layout_));
    }
    memory_.gradients = ring_plan_ ? rings[local_rank] : gradients[local_rank];
    optimizer_states_ = seal_states(*optimizer_, layout_, sharing_, arena, plan);
    update_ = std::make_unique<Update>(layout_, memory_.trained_parameters, gradients, optimizer_states_,
                                       arena.as<double>(plan[kPartials]), kernels, group);
    if (averaging_) averages_ = arena.as<float>(plan[kAverages]);
    update_->keep_average(averages_);
  }
  products_ = make_products(choice_, product_type_, kernels, threads, arena.at(plan[kProducts]));
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    tapes_.push_back(std::make_unique<Tape>(*graphs_[i], workspaces_[i], layout_, memory_, kernels, *products_));
  }
  TapeMemory averaged = memory_;
  averaged.trained_parameters = averages_;
  for (std::size_t i = 0; averages_ != nullptr && i < graphs_.size(); ++i) {
    const bool is_trained = i == trained_graph_;
    averaged_tapes_.push_back(
        is_trained ? nullptr
                   : std::make_unique<Tape>(*graphs_[i], workspaces_[i], layout_, averaged, kernels, *products_));
  }
  if (!ring_plan_) return;
  bucket_sums_ =
      std::make_unique<BucketSums>(*ring_plan_, std::move(rings), group->local_rank(), gradients.front(), kernels);
  ring_ = std::make_unique<GradientRing>(*ring_plan_, *tapes_[trained_graph_], memory_.gradients, group, *bucket_sums_);
}

void Session::seal_alone(bool training, const KernelTable& kernels, int threads) {
  const MemoryPlan memory = make_memory_plan(plan(training, threads), 0);
  arena_ = std::make_unique<Arena>(memory, HugePages::kTransparent);
  seal(*arena_, memory, kernels, threads);
}

void Session::overlap_reduction(std::size_t number, std::size_t bucket_bytes) {
  const std::int64_t blocks =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(bucket_bytes / sizeof(float)) / kUpdateBlockElements);
  update_->overlap(blocks, bucket_marks(tapes_[number]->steps_until_final(), layout_, update_->bucket_ends(blocks)));
}

}  // namespace bascule
