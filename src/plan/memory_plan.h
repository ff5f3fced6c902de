// SPDX-License-Identifier: Apache-2.0
// The memory plan of a run: what the arena holds, by category, before anything is loaded, printed by `bascule plan`;
// and the workspace in words and as a picture.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/graph/graph.h"
#include "src/plan/workspace.h"

namespace bascule {

struct PlannedRange {
  std::string name;
  std::size_t bytes = 0;
  bool shared = false;     // by the ranks of a node, or the workers of a service: once for all of them
  std::size_t offset = 0;  // in the arena, or in the memory that ranks share; a multiple of a page
};

// The estimates for a run: measured at 6 MiB and 3 for each rank, with oneDNN's products at 12 and 12.
inline constexpr std::size_t kProgramBytes = std::size_t{42} << 20, kProcessBytes = std::size_t{6} << 20;

struct MemoryPlan {
  std::vector<PlannedRange> categories;  // in the order of the arena
  std::size_t arena_bytes = 0;           // of one rank
  std::size_t shared_bytes = 0;          // of all ranks of a node together
  std::size_t ranks = 1;                 // of a node; or workers of a service, which have an arena each like them
  // Memory beside the arenas (estimated): the pages of program and libraries, which the ranks of a node share, and
  // what each process holds itself: graphs and tapes, stacks, oneDNN's primitives.
  std::size_t program_bytes = 0, outside_bytes = 0;
  std::size_t index_bytes = 0;   // and the data's index, to the byte
  std::size_t server_bytes = 0;  // and connections with what they receive and send, to the byte
  std::size_t workspace_lower_bound_bytes = 0;
  std::vector<LargestBuffer> largest;

  // For all ranks of a node together.
  std::size_t peak_bytes() const {
    return ranks * (arena_bytes + index_bytes) + shared_bytes + server_bytes + program_of_ranks();
  }
  std::size_t program_of_ranks() const { return program_bytes + ranks * outside_bytes; }
  std::size_t lower_bound_bytes() const;  // with a workspace as small as lifetimes permit
  // The category's place; the name must be there.
  const PlannedRange& operator[](const std::string& name) const;
};

// Lays the categories out one after another, each on a page bound: those of a rank in its arena, shared ones in theirs.
MemoryPlan make_memory_plan(std::vector<PlannedRange> categories, std::size_t outside_bytes,
                            std::size_t index_bytes = 0, std::size_t ranks = 1);

// A table for people: category, MiB, share; then the bound and the largest buffers.
std::string print_memory_plan(const MemoryPlan& plan);

// A picture of a workspace over one replay: from left to right the graph's nodes, upwards the places in the arena.
// Where activations lie in the range of gradients too, that is below the workspace; states lie below both.

// One <svg> element, for a page; a file of its own needs the namespace. Each tensor is a rectangle with its name and
// size as a title; those that are too low to be seen are left out.
std::string draw_arena(const Graph& graph, const WorkspacePlan& plan, bool with_namespace);

// Lists by layer what the workspace holds at its peak; with the range of gradients where activations lie there too.

// The content of a tensor of the workspace.
enum class Held { kForward, kAgain, kBackward };  // results of forward, of copies of its nodes, and all else

// The scope of the node that writes a tensor, what it holds, and the first node that touches it.
struct TensorOrigin {
  std::string scope;
  Held held = Held::kBackward;
  int first = -1;
};
std::vector<TensorOrigin> origins_of(const Graph& graph);  // by tensor

// Layers whose names differ in numbers alone are one entry: "text_model.encoder.layer.*".
struct AliveLayers {
  std::string name;
  std::size_t layers = 0;
  std::size_t forward_bytes = 0, again_bytes = 0, backward_bytes = 0;
  std::size_t bytes() const { return forward_bytes + again_bytes + backward_bytes; }
};

// The node at which most is alive, the first of equals.
int peak_node(const WorkspacePlan& plan);
// In the order of the graph; gradients come last, where they share their range.
std::vector<AliveLayers> alive_at_peak(const Graph& graph, const WorkspacePlan& plan);

}  // namespace bascule
