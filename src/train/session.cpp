// SPDX-License-Identifier: Apache-2.0
#include "src/train/session.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {
namespace {

constexpr char kTrained[] = "parameters, trained";
constexpr char kFixed[] = "parameters, fixed";
constexpr char kGradients[] = "gradients";
constexpr char kExpAvg[] = "exp_avg";
constexpr char kExpAvgSq[] = "exp_avg_sq";
constexpr char kPartials[] = "gradient norm";
constexpr char kWorkspace[] = "workspace";
constexpr char kScratch[] = "thread scratch";

std::size_t bytes_of_floats(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

}  // namespace

Graph& Session::add_graph(const BatchCounts& bounds) {
  graphs_.push_back(std::make_unique<Graph>(parameters_, bounds));
  return *graphs_.back();
}

std::vector<PlannedRange> Session::plan(bool training, int threads) {
  training_ = training;
  std::vector<int> order;
  for (const auto& graph : graphs_) {
    if (order.empty()) order = gradient_order(*graph);
  }
  layout_ = lay_out_parameters(parameters_, order);
  std::size_t workspace = 0;
  for (const auto& graph : graphs_) {
    workspaces_.push_back(plan_workspace(*graph));
    workspace = std::max(workspace, workspaces_.back().bytes);
    thread_scratch_bytes_ = std::max(thread_scratch_bytes_, workspaces_.back().thread_scratch_bytes);
  }
  const std::size_t trained = bytes_of_floats(layout_.trained_elements);
  std::vector<PlannedRange> ranges = {{kTrained, trained}, {kFixed, bytes_of_floats(layout_.fixed_elements)}};
  if (training) {
    ranges.push_back({kGradients, trained});
    ranges.push_back({kExpAvg, trained});
    ranges.push_back({kExpAvgSq, trained});
    ranges.push_back({kPartials, Update::block_count(layout_) * sizeof(double)});
  }
  ranges.push_back({kWorkspace, workspace});
  ranges.push_back({kScratch, thread_scratch_bytes_ * static_cast<std::size_t>(threads)});
  return ranges;
}

std::size_t Session::workspace_lower_bound_bytes() const {
  std::size_t bound = 0;
  for (const WorkspacePlan& plan : workspaces_) bound = std::max(bound, plan.lower_bound_bytes);
  return bound;
}

std::vector<LargestBuffer> Session::largest(std::size_t count) const {
  std::size_t most = 0;
  for (std::size_t i = 1; i < workspaces_.size(); ++i) most = workspaces_[i].bytes > workspaces_[most].bytes ? i : most;
  return workspaces_.empty() ? std::vector<LargestBuffer>{} : largest_buffers(*graphs_[most], workspaces_[most], count);
}

void Session::seal(const Arena& arena, const MemoryPlan& plan, const KernelTable& kernels, int threads) {
  memory_.trained_parameters = arena.as<float>(plan[kTrained]);
  memory_.fixed_parameters = arena.as<float>(plan[kFixed]);
  memory_.workspace = arena.at(plan[kWorkspace]);
  memory_.thread_scratch = arena.at(plan[kScratch]);
  memory_.thread_scratch_bytes = thread_scratch_bytes_;
  if (training_) {
    memory_.gradients = arena.as<float>(plan[kGradients]);
    exp_avg_ = arena.as<float>(plan[kExpAvg]);
    exp_avg_sq_ = arena.as<float>(plan[kExpAvgSq]);
    update_ = std::make_unique<Update>(layout_, memory_.trained_parameters, memory_.gradients, exp_avg_, exp_avg_sq_,
                                       arena.as<double>(plan[kPartials]), kernels);
  }
  products_ = GemmCache::make(threads);
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    tapes_.push_back(std::make_unique<Tape>(*graphs_[i], workspaces_[i], layout_, memory_, kernels, *products_));
  }
}

}  // namespace bascule
