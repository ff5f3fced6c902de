// SPDX-License-Identifier: Apache-2.0
// Layers to record in a test's graph.
#pragma once

#include <cstdint>
#include <string>

#include "src/graph/operations.h"
#include "tests/graph/graph_run.h"

namespace bascule::test {

inline constexpr std::int64_t kLayerWidth = 24, kLayerHeads = 3;

// A post-norm transformer layer that drops.
inline Tensor post_norm_layer(GraphRun& run, int number, Tensor x) {
  Graph& g = run.graph();
  const std::string name = "layer" + std::to_string(number);
  const std::uint32_t place = 10 * static_cast<std::uint32_t>(number);
  const SampleRows text = run.text();
  const auto dense = [&](const std::string& label, Tensor in, std::int64_t out) {
    return linear(g, name + label, in, run.parameter(name + label + ".w", out, g[in].cols),
                  run.parameter(name + label + ".b", 1, out));
  };
  const auto norm = [&](const std::string& label, Tensor in, Tensor h, std::uint32_t at) {
    return add_layer_norm(g, name + label, in, h, run.parameter(name + label + ".w", 1, kLayerWidth),
                          run.parameter(name + label + ".b", 1, kLayerWidth), 1e-5f, {0.2f, at}, text.row_keys)
        .y;
  };
  g.set_scope(name);
  const Tensor all = dense(".qkv", x, 3 * kLayerWidth);
  const Tensor context =
      attention(g, name + ".attention", {all, 0}, text, {all, kLayerWidth}, {all, 2 * kLayerWidth}, text, kLayerHeads,
                kLayerWidth / kLayerHeads, {0.2f, place}, run.field("sample_keys"));
  const Tensor middle = norm(".norm1", x, dense(".out", context, kLayerWidth), place + 1);
  const Tensor wide = activation(g, name + ".gelu", dense(".up", middle, 50), Activation::kGelu);
  return norm(".norm2", middle, dense(".down", wide, kLayerWidth), place + 2);
}

}  // namespace bascule::test
