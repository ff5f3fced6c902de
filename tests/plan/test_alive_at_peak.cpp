// SPDX-License-Identifier: Apache-2.0
#include "src/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/graph/recompute.h"

namespace bascule::test {
namespace {

// Three layers of a product and an activation under numbered scopes, and a head.
struct Layers {
  Layers()
      : graph(parameters, counts(), {{"labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels}}) {
    Tensor x = graph.input("x", rows_per_sample(1), 64);
    for (int i = 0; i < 3; ++i) {
      const std::string name = "tower.layer." + std::to_string(i);
      graph.set_scope(name);
      const Tensor h = linear(graph, name + ".h", x, graph.parameter({name + ".w", 256, 64, true, true, {}}), Tensor{});
      const Tensor g = activation(graph, name + ".g", h, Activation::kGelu);
      x = linear(graph, name + ".y", g, graph.parameter({name + ".v", 64, 256, true, true, {}}), Tensor{});
    }
    graph.set_scope("head");
    const Tensor logits = linear(graph, "logits", x, graph.parameter({"head.w", 4, 64, true, true, {}}), Tensor{});
    cross_entropy_loss(graph, logits, graph.field("labels"));
    derive_backward(graph);
  }
  static BatchCounts counts() {
    BatchCounts counts;
    counts[kSamples] = 32;
    return counts;
  }
  ParameterSet parameters;
  Graph graph;
};

std::size_t sum(const std::vector<AliveLayers>& alive) {
  std::size_t bytes = 0;
  for (const AliveLayers& layers : alive) bytes += layers.bytes();
  return bytes;
}

const AliveLayers& entry(const std::vector<AliveLayers>& alive, const std::string& name) {
  const auto found = std::find_if(alive.begin(), alive.end(), [&](const AliveLayers& l) { return l.name == name; });
  EXPECT_NE(found, alive.end()) << name;
  return found == alive.end() ? alive.front() : *found;
}

TEST(AliveAtPeak, SumsToTheLowerBoundAndJoinsLayersThatDifferInNumbers) {
  Layers model;
  const WorkspacePlan plan = plan_workspace(model.graph);
  const std::vector<AliveLayers> alive = alive_at_peak(model.graph, plan);
  EXPECT_EQ(sum(alive), plan.lower_bound_bytes);
  const AliveLayers& tower = entry(alive, "tower.layer.*");
  EXPECT_EQ(tower.layers, 3u);
  EXPECT_GE(tower.forward_bytes, 3u * 2u * 32u * 256u * sizeof(float));  // h and g of each layer
  EXPECT_EQ(tower.again_bytes, 0u);
}

TEST(AliveAtPeak, CopiesAreCountedApart) {
  Layers model;
  recompute(model.graph, std::vector<Recompute>(layers_of(model.graph).size(), Recompute::kAll));
  const WorkspacePlan plan = plan_workspace(model.graph);
  const std::vector<AliveLayers> alive = alive_at_peak(model.graph, plan);
  EXPECT_EQ(sum(alive), plan.lower_bound_bytes);
  EXPECT_GE(entry(alive, "tower.layer.*").again_bytes, 2u * 32u * 256u * sizeof(float));
}

TEST(AliveAtPeak, ThePictureHasARectangleForEachLargeTensorInsideTheArena) {
  Layers model;
  const WorkspacePlan plan = plan_workspace(model.graph);
  const std::string svg = draw_arena(model.graph, plan, true);
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  for (const WorkspaceBuffer& buffer : plan.buffers) {
    if (buffer.request.bytes * 100 < plan.bytes) continue;
    for (const Tensor tensor : buffer.tensors)
      EXPECT_NE(svg.find("<title>" + model.graph[tensor].name + ","), std::string::npos) << model.graph[tensor].name;
  }
}

}  // namespace
}  // namespace bascule::test
