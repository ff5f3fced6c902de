// SPDX-License-Identifier: Apache-2.0
#include "src/session/session.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/span.h"
#include "src/graph/element_types.h"
#include "src/runtime/choose_isa.h"

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

void Training::begin(const UpdateSettings& settings) noexcept {
  update_->begin(settings.step);
  if (fused_ != nullptr) fused_->begin(settings);
}

bool Training::replay(Threads& threads, const Replay& replay) noexcept {
  if (ring_ != nullptr) return ring_->replay(threads, replay);
  tape_->replay(threads, replay);
  return true;
}

bool Training::replay_without_samples(Threads& threads, bool first) noexcept {
  if (ring_ != nullptr) return ring_->replay_without_samples(threads);
  if (first) std::fill_n(gradients_, layout_->trained_elements, 0.0f);
  if (group_ == nullptr) return true;
  group_->position().reach(static_cast<std::int64_t>(tape_->step_count()));
  group_->heart().beat();
  return true;
}

double Training::finish(Threads& threads, const UpdateSettings& settings) noexcept {
  return fused_ != nullptr ? fused_->finish(threads) : update_->run(threads, settings);
}

void Training::overlap_reduction(std::size_t bucket_bytes) {
  const std::int64_t blocks =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(bucket_bytes / sizeof(float)) / kUpdateBlockElements);
  update_->overlap(blocks, bucket_marks(tape_->steps_until_final(), *layout_, update_->bucket_ends(blocks)));
}

std::vector<Span<std::byte>> Training::own_memory() const {
  std::vector<Span<std::byte>> memory = update_->own_memory();
  memory.push_back({static_cast<std::byte*>(static_cast<void*>(gradients_)),
                    ring_plan_ ? ring_plan_->bytes : trained_bytes(*layout_)});
  return memory;
}

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

std::vector<Graph*> Session::all_graphs() const {
  std::vector<Graph*> graphs;
  for (const auto& graph : graphs_) graphs.push_back(graph.get());
  return graphs;
}

std::vector<PlannedRange> Session::plan(int threads, int local_ranks) {
  std::vector<int> order;
  for (std::size_t i = 0; i < graphs_.size() && order.empty(); ++i) {
    order = gradient_order(*graphs_[i]);
    trained_graph_ = order.empty() ? 0 : i;
  }
  if (!training_ && order.empty()) {
    const std::vector<Graph*> graphs = all_graphs();
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
  BASCULE_CHECK(!training_ || tapes_.empty());
  memory_.trained_parameters = arena.as<float>(plan[kTrained]);
  memory_.fixed_parameters = arena.as<float>(plan[kFixed]);
  if (layout_.rounded_elements > 0) memory_.rounded_parameters = arena.as<std::uint16_t>(plan[kRounded]);
  if (states_.size() > 0) memory_.states = arena.at(plan[kStates]);
  memory_.workspace = arena.at(plan[kWorkspace]);
  memory_.thread_scratch = arena.at(plan[kScratch]);
  memory_.thread_scratch_bytes = thread_scratch_bytes_;
  if (training_) training_->seal(arena, plan, layout_, kernels, group, &memory_);
  kernels_ = &kernels;
  if (allows_packing_ && choice_ == Products::kOurs) {
    BASCULE_CHECK(!training_);
    const std::vector<Graph*> graphs = all_graphs();
    packed_ = choose_packed_parameters({graphs.data(), graphs.size()}, parameters_, kernels);
  }
  products_.push_back(make_products(choice_, product_type_, kernels, threads, arena.at(plan[kProducts])));
  Tapes tapes;
  for (std::size_t i = 0; i < graphs_.size(); ++i)
    tapes.push_back(std::make_unique<Tape>(*graphs_[i], workspaces_[i], layout_, memory_, kernels, *products_.back()));
  tapes_.push_back(std::move(tapes));
  if (!training_) return;
  training_->seal_tape(tape(trained_graph_));
  if (training_->averages() != nullptr) seal_averaged_tapes(kernels);
}

void Session::seal_averaged_tapes(const KernelTable& kernels) {
  TapeMemory averaged = memory_;
  averaged.trained_parameters = training_->averages();
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    const bool is_trained = i == trained_graph_;
    averaged_tapes_.push_back(
        is_trained ? nullptr
                   : std::make_unique<Tape>(*graphs_[i], workspaces_[i], layout_, averaged, kernels, products()));
  }
}

void Session::pack(Threads& threads) {
  BASCULE_CHECK(kernels_ != nullptr && !is_packed_);
  is_packed_ = true;
  StartWork work;
  pack_parameters(&work, parameter_memory(), {packed_.data(), packed_.size()}, *kernels_);
  work.run(threads);
}

void Session::seal_alone(const KernelTable& kernels, int threads) {
  const MemoryPlan memory = make_memory_plan(plan(threads), 0);
  arena_ = std::make_unique<Arena>(memory, HugePages::kTransparent);
  seal(*arena_, memory, kernels, threads);
}

}  // namespace bascule
