// SPDX-License-Identifier: Apache-2.0
// training.gradient_checkpointing: what backward computes again in place of keeping it. Results have the same bits.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/plan/choose_recompute.h"

namespace bascule {

// A summary of what is recomputed, for people.
struct Recomputation {
  std::size_t layers = 0, of_layers = 0;  // recomputed, and all that can be
  double flops = 0.0, step_flops = 0.0;   // repeated, and of a step without recomputation, at the largest batch
  double least_flops = 0.0;               // any choice that fits repeats at least as many

  std::string text() const;
};

// Operations of a replay at the graph's bounds.
double flops_of(const Graph& graph);

// Makes the training graph recompute: by a choice, by layer; the same in all layers; or so that its workspace has at
// most so many bytes, where nothing fits nearly as few as possible. layout: as RecomputePlanner has it.
Recomputation apply_recomputation(Graph* graph, const std::vector<Recompute>& choice);
Recomputation recompute_everywhere(Graph* graph, Recompute choice);
Recomputation recompute_to_fit(Graph* graph, const ParameterLayout* layout, std::size_t workspace_bytes);

}  // namespace bascule
