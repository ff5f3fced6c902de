// SPDX-License-Identifier: Apache-2.0
#include "src/plan/choose_recompute.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "tests/graph/graph_run.h"

namespace bascule::test {
namespace {

TEST(Recomputation, TheLineGivesTheShareOfAStepWithoutRecomputation) {
  Recomputation done;
  EXPECT_EQ(done.text(), "nothing is recomputed");
  done.layers = 2;
  done.of_layers = 3;
  done.flops = 5e8;
  done.step_flops = 4e9;
  EXPECT_EQ(done.text(), "recomputed in 2 of 3 layers: 0.5 GFLOP a step, 12.50 % of its operations");
  done.least_flops = 1e8;
  EXPECT_EQ(done.text(),
            "recomputed in 2 of 3 layers: 0.5 GFLOP a step, 12.50 % of its operations (any choice that fits: at least "
            "2.50 %)");
}

// Sums the operations at the largest batch: of the nodes that backward computes again, or of the others.
double flops_of_nodes(const Graph& graph, bool again) {
  double flops = 0.0;
  for (const Node& node : graph.nodes()) {
    if (node.again == again) flops += cost_of(graph, node, graph.bounds()).flops;
  }
  return flops;
}

TEST(Recomputation, CountsWhatIsRepeatedApartFromTheStep) {
  GraphRun run(counts_of(6, 60, 30), 1);
  Graph& g = run.graph();
  Tensor x = run.source("x", text_rows(), 24);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    g.set_scope(name);
    x = linear(g, "up", x, run.parameter(name + ".up", 96, 24), run.parameter(name + ".up.bias", 1, 96));
    x = activation(g, "gelu", x, Activation::kGelu);
    x = linear(g, "down", x, run.parameter(name + ".down", 24, 96), run.parameter(name + ".down.bias", 1, 24));
  }
  g.set_scope("head");
  cross_entropy_loss(g, linear(g, "logits", x, run.parameter("head", 7, 24), Tensor{}), run.field("labels"));
  derive_backward(g);
  const std::size_t layers = layers_of(g).size();
  const double step = flops_of(g);
  const Recomputation done = recompute_everywhere(&g, Recompute::kAll);
  EXPECT_GT(layers, 1u);
  EXPECT_EQ(done.layers, layers);
  EXPECT_EQ(done.of_layers, layers);
  EXPECT_EQ(done.step_flops, step);
  EXPECT_GT(flops_of_nodes(g, true), 0.0);
  EXPECT_DOUBLE_EQ(done.flops, flops_of_nodes(g, true));
  EXPECT_DOUBLE_EQ(done.step_flops, flops_of_nodes(g, false));
}

}  // namespace
}  // namespace bascule::test
