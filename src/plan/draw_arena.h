// SPDX-License-Identifier: Apache-2.0
// The workspace in words and as a picture.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/graph/graph.h"
#include "src/plan/workspace.h"

namespace bascule {

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
