// SPDX-License-Identifier: Apache-2.0
// training.gradient_checkpointing: what backward computes again in place of keeping it. Results have the same bits.
#pragma once

#include <cstddef>
#include <string>

#include "src/plan/choose_recompute.h"
#include "src/settings/settings.h"

namespace bascule {

// What is recomputed, for people.
struct Recomputation {
  std::size_t layers = 0, of_layers = 0;  // recomputed, and all that can be
  double flops = 0.0, step_flops = 0.0;   // repeated, and of a step without recomputation, at the largest batch
  double least_flops = 0.0;               // any choice that fits repeats at least as many

  std::string text() const;
};

// Operations of a replay at the graph's bounds.
double flops_of(const Graph& graph);

// Makes the training graph recompute by this choice.
Recomputation apply_recomputation(Graph* graph, const RecomputePlan& plan);

// graph: of training, after derive_backward(). layout: as RecomputePlanner has it. kFit: the workspace may have so many
// bytes; where nothing fits, it is nearly the smallest that there is.
Recomputation recompute_as_asked(Graph* graph, GradientCheckpointing asked, const ParameterLayout* layout,
                                 std::size_t workspace_bytes);

}  // namespace bascule
