// SPDX-License-Identifier: Apache-2.0
// The range of gradients as a place for activations. A gradient's memory is its own from its first write on; before
// that, activations may lie there. Only where every replay writes gradients anew: with one micro-batch an update.
#pragma once

#include <cstddef>
#include <vector>

#include "src/graph/graph.h"
#include "src/plan/place.h"

namespace bascule {

struct GradientSpace {
  std::size_t bytes = 0;          // of the range, and a line that is always taken: nothing reaches across its end
  std::vector<TakenPlace> taken;  // by offset: each gradient from its first write; all that no gradient writes, always
};

// Gradients have the places of their parameters. What is between them stays zero, as do those that are never written:
// the update reads them.
GradientSpace find_gradient_space(const Graph& graph, const ParameterLayout& layout);

}  // namespace bascule
