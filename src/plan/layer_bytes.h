// SPDX-License-Identifier: Apache-2.0
// How a layer's memory depends on what is recomputed. Backward visits the layers in the opposite order of forward:
// while a layer is under way, there is alive what the layers below it keep, and a working set that its own choice
// decides.
#pragma once

#include <cstddef>
#include <vector>

#include "src/graph/recompute.h"

namespace bascule {

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
// layout: gradients count too, from their first write, with the rest of their range (gradient_space.h); null: they do
// not.
MeasuredLayers measure_layers(const Graph& graph, const ParameterLayout* layout);

}  // namespace bascule
