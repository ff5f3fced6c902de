// SPDX-License-Identifier: Apache-2.0
// Lifetimes of a graph's tensors, and their places in the workspace.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/graph/graph.h"
#include "src/plan/gradient_ring.h"
#include "src/plan/place.h"

namespace bascule {

// A stretch of memory that one tensor, or several that follow one another in it, lives in.
struct WorkspaceBuffer {
  BufferRequest request;
  std::size_t offset = 0;  // in the workspace, or in the range of gradients
  bool in_gradients = false;
  std::vector<Tensor> tensors;
};

struct WorkspacePlan {
  std::vector<WorkspaceBuffer> buffers;
  std::vector<int> buffer_of;  // by tensor; -1: no activation or input, or never used
  GradientSpace gradients;     // where buffers lie beside the workspace; no bytes: nowhere
  std::size_t bytes = 0;
  std::size_t lower_bound_bytes = 0;
  std::size_t thread_scratch_bytes = 0;  // of one thread
};

// The buffers of a graph with their lifetimes, without places. buffer_of: as in WorkspacePlan; may be null.
std::vector<WorkspaceBuffer> workspace_buffers(const Graph& graph, std::vector<int>* buffer_of = nullptr);

// Row extents at the graph's bounds, rounded up to 16 (gemm.h). Checks itself: an overlap is a bug and ends the
// program. gradients: where buffers may lie too, while nothing is written there; null: nowhere.
WorkspacePlan plan_workspace(const Graph& graph, const GradientSpace* gradients = nullptr);

// "name (rows x cols)" and bytes of the `count` largest buffers.
struct LargestBuffer {
  std::string name;
  std::size_t bytes = 0;
};
std::vector<LargestBuffer> largest_buffers(const Graph& graph, const WorkspacePlan& plan, std::size_t count);

}  // namespace bascule
