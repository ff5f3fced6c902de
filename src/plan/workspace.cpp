// SPDX-License-Identifier: Apache-2.0
#include "src/plan/workspace.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/span.h"

namespace bascule {
namespace {

struct Lifetime {
  int first = -1, last = -1;
};

std::vector<Lifetime> find_lifetimes(const Graph& graph) {
  std::vector<Lifetime> lifetimes(graph.tensors().size());
  const int nodes = static_cast<int>(graph.nodes().size());
  for (int n = 0; n < nodes; ++n) {
    for (const Operand& operand : graph.nodes()[static_cast<std::size_t>(n)].operands) {
      if (!operand) continue;
      Lifetime& lifetime = lifetimes[static_cast<std::size_t>(operand.tensor.index)];
      if (lifetime.first < 0) lifetime.first = n;
      lifetime.last = n;
    }
  }
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].first < 0) continue;
    if (graph.tensors()[i].storage == Storage::kInput) lifetimes[i].first = 0;
    if (graph.tensors()[i].kept) lifetimes[i].last = nodes;
  }
  return lifetimes;
}

std::size_t bytes_of(const Graph& graph, const TensorInfo& info) {
  const std::int64_t rows = align_up<std::int64_t>(info.rows.at(graph.bounds()), 16);
  return align_up(static_cast<std::size_t>(rows * info.cols) * element_bytes(info.dtype), kCacheLine);
}

}  // namespace

std::vector<WorkspaceBuffer> workspace_buffers(const Graph& graph, std::vector<int>* buffer_of) {
  const std::vector<Lifetime> lifetimes = find_lifetimes(graph);
  std::vector<WorkspaceBuffer> buffers;
  std::vector<int> number(graph.tensors().size(), -1);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const TensorInfo& info = graph.tensors()[i];
    const bool placed = info.storage == Storage::kActivation || info.storage == Storage::kInput;
    if (!placed || lifetimes[i].first < 0) continue;
    const std::size_t bytes = bytes_of(graph, info);
    const Tensor tensor{static_cast<std::int32_t>(i)};
    if (info.may_share) {
      // A tensor's number is lower than that of any tensor that may take its place, so it has its buffer by now.
      const int index = number[static_cast<std::size_t>(info.may_share.index)];
      if (index >= 0 && graph[info.may_share].storage == Storage::kActivation) {
        WorkspaceBuffer& buffer = buffers[static_cast<std::size_t>(index)];
        // In place, element by element: those of another size would lie over elements that are still to be read.
        const bool fits = graph[info.may_share].dtype == info.dtype && buffer.request.bytes >= bytes;
        if (buffer.request.last == lifetimes[i].first && fits) {
          buffer.request.last = lifetimes[i].last;
          buffer.tensors.push_back(tensor);
          number[i] = index;
          continue;
        }
      }
    }
    number[i] = static_cast<int>(buffers.size());
    buffers.push_back({{bytes, lifetimes[i].first, lifetimes[i].last}, 0, false, {tensor}});
  }
  if (buffer_of != nullptr) *buffer_of = std::move(number);
  return buffers;
}

WorkspacePlan plan_workspace(const Graph& graph, const GradientSpace* gradients) {
  WorkspacePlan plan;
  plan.buffers = workspace_buffers(graph, &plan.buffer_of);
  std::vector<BufferRequest> requests;
  for (const WorkspaceBuffer& buffer : plan.buffers) requests.push_back(buffer.request);
  // The arena that is placed in is the range of gradients with the workspace behind it.
  const Span<const TakenPlace> taken = gradients != nullptr ? gradients->taken : Span<const TakenPlace>();
  const std::size_t begin = gradients != nullptr ? gradients->bytes : 0;
  const Placement placement = place_buffers(requests, taken);
  BASCULE_CHECK(!first_overlap(requests, placement, taken).has_value());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    plan.buffers[i].in_gradients = placement.offsets[i] < begin;
    plan.buffers[i].offset = placement.offsets[i] - (plan.buffers[i].in_gradients ? 0 : begin);
  }
  plan.bytes = align_up(placement.peak_bytes, kCacheLine) - begin;
  const std::size_t bound = lower_bound_bytes(requests, taken);
  plan.lower_bound_bytes = bound - std::min(bound, begin);
  if (gradients != nullptr) plan.gradients = *gradients;
  std::int64_t scratch = 0;
  for (const Node& node : graph.nodes()) {
    if (node.kind->thread_scratch_floats != nullptr)
      scratch = std::max(scratch, node.kind->thread_scratch_floats(NodeView(graph, node)));
  }
  plan.thread_scratch_bytes = align_up(static_cast<std::size_t>(scratch) * sizeof(float), kPage);
  return plan;
}

std::vector<LargestBuffer> largest_buffers(const Graph& graph, const WorkspacePlan& plan, std::size_t count) {
  std::vector<LargestBuffer> largest;
  for (const WorkspaceBuffer& buffer : plan.buffers) {
    const TensorInfo& info = graph[buffer.tensors.front()];
    largest.push_back(
        {info.name + " (" + std::to_string(info.rows.at(graph.bounds())) + " x " + std::to_string(info.cols) + ")",
         buffer.request.bytes});
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const LargestBuffer& a, const LargestBuffer& b) { return a.bytes > b.bytes; });
  if (largest.size() > count) largest.resize(count);
  return largest;
}

}  // namespace bascule
