// SPDX-License-Identifier: Apache-2.0
// Recomputation: backward computes results of a layer's forward nodes again, from the layer's inputs, in place of
// reading what was kept since forward. It takes time and saves memory. Results have the same bits: the copies are the
// same operations on the same values, and what is dropped depends on the place in the model alone.
//
//   derive_backward(graph);
//   recompute(graph, std::vector<Recompute>(layers_of(graph).size(), Recompute::kAll));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace bascule {

// Which results of a layer are computed again.
enum class Recompute : std::uint8_t {
  kNothing,
  kCheap,  // those of operations that the speed of memory limits, where that frees more than it holds
  kAll,    // all but those of the operations that other layers read from
};

// Forward nodes that follow one another under one scope.
struct GraphLayer {
  std::string name;
  std::size_t first = 0, end = 0;
};

// The layers that can be recomputed, in forward order: all but the last, whose backward follows its forward directly.
std::vector<GraphLayer> layers_of(const Graph& graph);

// After derive_backward(). choice: by layer of layers_of(graph). The copies stand as late as backward permits. Nodes
// and tensors are copied whole, whatever they hold.
void recompute(Graph& graph, const std::vector<Recompute>& choice);

}  // namespace bascule
