// SPDX-License-Identifier: Apache-2.0
// The memory of layers, the choice of those to recompute, and the recomputation that comes of it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/recompute.h"
#include "src/plan/gradient_ring.h"

namespace bascule {

// How a layer's memory depends on what is recomputed. Backward visits the layers in the opposite order of forward:
// while a layer is under way, there is alive what the layers below it keep, and a working set that its own choice
// decides.

inline constexpr std::size_t kRecomputeChoices = 3;  // values of Recompute

// By choice.
struct LayerBytes {
  std::size_t kept[kRecomputeChoices] = {};     // while later layers run
  std::size_t working[kRecomputeChoices] = {};  // while it runs itself, beside what the layers below it keep
};

// Bytes alive, by layer of layers_of(). Of the last layer, which is never recomputed, only what it works with counts.
struct BytesOfLayers {
  std::vector<LayerBytes> layers;
  std::size_t last_working = 0;
};

// Whatever the choices of other layers are, the bytes lie between `least` and `most`. In most models both are the same.
struct MeasuredLayers {
  BytesOfLayers least, most;
  std::vector<std::vector<double>> flops;  // repeated, by layer and choice, at the graph's bounds
};

// graph: of training, before recompute(). By the lifetimes of its tensors where all layers have the same choice.
// layout: gradients count too, from their first write, with the rest of their range (gradient_ring.h); null: they do
// not.
MeasuredLayers measure_layers(const Graph& graph, const ParameterLayout* layout);

// Chooses what to recompute, so that a workspace fits the memory that it may have at the fewest repeated operations.
//
// The search (dynamic programming over the layers in forward order):
//   * a state is the bytes that the layers decided so far keep, and the operations that they repeat. A choice is
//     possible where what is kept below it and its working set fit the limit;
//   * of two states the one that has more of both is dropped; at the end the one that repeats least is taken;
//   * the planner places it. Where placing takes more than lifetimes do, the search is repeated with a lower limit.
// The result depends on the graph and the limit alone. The search is exact for lifetimes; as placing may cost more, a
// bound is told beside it.

// A choice, by layer of layers_of(), with its workspace, and what it repeats at the graph's bounds.
struct RecomputePlan {
  std::vector<Recompute> choice;
  std::size_t workspace_bytes = 0;
  double flops = 0.0;
};

class RecomputePlanner {
 public:
  // graph: of training, before recompute(). layout: activations may lie in the range of gradients; null: only in the
  // workspace. Both outlive this.
  explicit RecomputePlanner(const Graph& graph, const ParameterLayout* layout = nullptr)
      : graph_(graph), layout_(layout), measured_(measure_layers(graph, layout)) {
    if (layout != nullptr) gradient_bytes_ = find_gradient_space(graph, *layout).bytes;
  }

  RecomputePlan plan(std::vector<Recompute> choice) const;
  RecomputePlan everywhere(Recompute choice) const;
  // Nearly the smallest workspace of all choices.
  RecomputePlan smallest() const;
  // The fewest repeated operations that were found for a workspace of so many bytes; none if nothing fits.
  std::optional<RecomputePlan> fit(std::size_t bytes) const;
  // No choice whose workspace has at most so many bytes repeats fewer operations.
  double least_flops(std::size_t bytes) const;
  // Plans from the smallest workspace to that without recomputation, each with more memory and fewer operations than
  // the one before: `count` (2 or more) at even distances, or fewer where they are too near each other.
  std::vector<RecomputePlan> frontier(std::size_t count) const;

 private:
  std::optional<std::vector<Recompute>> search(const BytesOfLayers& bytes, std::size_t workspace_bytes) const;

  const Graph& graph_;
  const ParameterLayout* const layout_;
  const MeasuredLayers measured_;
  std::size_t gradient_bytes_ = 0;  // of the range that activations may lie in
};

// training.gradient_checkpointing: what backward computes again in place of keeping it. Results have the same bits.

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
