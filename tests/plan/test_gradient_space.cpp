// SPDX-License-Identifier: Apache-2.0
#include "src/plan/gradient_ring.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/recompute.h"
#include "src/models/bridgetower.h"
#include "src/plan/workspace.h"
#include "tests/models/published_configs.h"

namespace bascule::test::test_gradient_space {
namespace {

struct Trained {
  explicit Trained(std::int64_t batch, Recompute choice)
      : graph(parameters, bridgetower_counts(batch, 25 * batch), fields()) {
    BridgeTowerOptions options;
    options.dropout = true;
    record_bridgetower(graph, base_config(), options);
    derive_backward(graph);
    recompute(graph, std::vector<Recompute>(layers_of(graph).size(), choice));
    layout = lay_out_parameters(parameters, gradient_order(graph));
  }
  static Fields fields() { return bridgetower_fields(base_config(), ModelHead::kContrastive, 288, 288, true); }
  ParameterSet parameters;
  Graph graph;
  ParameterLayout layout;
};

// By element of the range, in lines of 64 bytes: the first node that writes there, 0 where nothing ever does.
std::vector<int> first_write_of_lines(const Trained& trained) {
  std::vector<int> first(static_cast<std::size_t>(trained.layout.trained_elements + 15) / 16, 0);
  for (std::size_t n = trained.graph.nodes().size(); n-- > 0;) {
    for (const Operand& operand : trained.graph.nodes()[n].operands) {
      if (!operand || trained.graph[operand.tensor].storage != Storage::kGradient) continue;
      const int parameter = trained.graph[operand.tensor].parameter;
      const std::int64_t begin = trained.layout.places[static_cast<std::size_t>(parameter)].offset;
      const std::int64_t whole_lines = trained.parameters[parameter].elements() / 16;
      for (std::int64_t line = 0; line < whole_lines; ++line)
        first[static_cast<std::size_t>(begin / 16 + line)] = static_cast<int>(n);
    }
  }
  return first;
}

TEST(GradientSpace, NoBufferIsAliveWhereAGradientIsWrittenOrNoneEverIs) {
  for (const Recompute choice : {Recompute::kNothing, Recompute::kCheap, Recompute::kAll}) {
    const Trained trained(4, choice);
    const GradientSpace space = find_gradient_space(trained.graph, trained.layout);
    const WorkspacePlan plan = plan_workspace(trained.graph, &space);
    const std::vector<int> first_write = first_write_of_lines(trained);
    std::size_t inside = 0;
    for (const WorkspaceBuffer& buffer : plan.buffers) {
      if (!buffer.in_gradients) {
        EXPECT_LE(buffer.offset + buffer.request.bytes, plan.bytes);
        continue;
      }
      ++inside;
      for (std::size_t line = buffer.offset / 64; line < (buffer.offset + buffer.request.bytes + 63) / 64; ++line)
        ASSERT_LT(buffer.request.last, line < first_write.size() ? first_write[line] : 0) << "line " << line;
    }
    EXPECT_GT(inside, 50u);
  }
}

TEST(GradientSpace, SavesNearlyTheWholeRangeAndPlansStayNearTheirBound) {
  for (const Recompute choice : {Recompute::kNothing, Recompute::kAll}) {
    const Trained trained(8, choice);
    const GradientSpace space = find_gradient_space(trained.graph, trained.layout);
    const WorkspacePlan alone = plan_workspace(trained.graph), both = plan_workspace(trained.graph, &space);
    const double range = static_cast<double>(space.bytes);
    EXPECT_LT(static_cast<double>(both.bytes), static_cast<double>(alone.bytes) - 0.27 * range);
    EXPECT_LT(static_cast<double>(both.bytes) + range, 1.02 * (static_cast<double>(both.lower_bound_bytes) + range));
    if (choice == Recompute::kNothing) {
      EXPECT_LT(static_cast<double>(both.bytes), static_cast<double>(alone.bytes) - 0.9 * range);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_gradient_space
