// SPDX-License-Identifier: Apache-2.0
// Where nothing trains, weights that products alone read are stored as bf16, and others with a copy that is where
// products have few rows: which, how much memory they take, and that no bit of a result changes.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/element_types.h"
#include "src/graph/operations.h"
#include "src/session/session.h"
#include "tests/graph/graph_run.h"
#include "tests/support/error_bound.h"

namespace bascule::test::test_rounded_parameters {
namespace {

constexpr std::int64_t kRows = 6, kIn = 293, kOut = 21, kChannels = 3;
constexpr BatchCounts kBounds = counts_of(2, 4, 4);

// A product and a convolution, and a product of one row. Something else reads `also_read` whole.
struct Layers {
  Tensor x, pictures, y, convolved;

  Layers(Graph& graph, const std::string& also_read, std::int64_t rows) {
    x = graph.input("x", fixed_rows(rows), kIn);
    y = linear(graph, "y", x, normal_weight(graph, "w", kOut, kIn), normal_weight(graph, "b", 1, kOut));
    pictures = graph.input("pictures", rows_per_sample(kRows), kChannels);
    ConvolutionShape shape;
    shape.height = 2;
    shape.width = 3;
    convolved = convolution(graph, "convolved", pictures, normal_weight(graph, "conv.w", kOut, 9 * kChannels),
                            normal_weight(graph, "conv.b", 1, kOut), shape);
    const Tensor row =
        linear(graph, "row", graph.input("one", fixed_rows(1), kIn), normal_weight(graph, "row.w", 5, kIn), {});
    for (const Tensor kept : {y, convolved, row}) graph.keep(kept);
    if (!also_read.empty())
      graph.keep(
          scale(graph, "whole", normal_weight(graph, also_read, kOut, also_read == "w" ? kIn : 9 * kChannels), 2.0f));
  }
};

struct SmallSession {
  Session session;
  const Layers layers;
  Threads threads{2, false};

  explicit SmallSession(const std::string& also_read = "", bool is_bf16 = true, std::int64_t rows = kRows)
      : layers(session.add_graph(kBounds, {}), also_read, rows) {
    if (is_bf16) choose_element_types(session.graph(0));
  }
  std::size_t planned(const std::string& name) {
    for (const PlannedRange& range : session.plan(2)) {
      if (range.name == name) return range.bytes;
    }
    return 0;
  }
  bool has(const std::string& name) const {
    for (int p = 0; p < session.parameters().size(); ++p) {
      if (session.parameters()[p].name == name) return true;
    }
    return false;
  }
  bool is_rounded(const std::string& name) const {
    for (int p = 0; p < session.parameters().size(); ++p) {
      if (session.parameters()[p].name == name) return session.parameters()[p].rounded;
    }
    ADD_FAILURE() << name;
    return false;
  }
  // Of "w", by the first product.
  DType type_read_by_product() const {
    const Graph& graph = session.graph(0);
    return graph[graph.nodes().front().operands[1].tensor].dtype;
  }
  // The results for one input.
  std::vector<float> results() {
    session.seal_alone(kernels_for(best_isa()), 2);
    StartWork work;
    initialise_parameters(&work, session.parameter_memory(), 5);
    work.run(threads);
    const Tape& tape = session.tape(0);
    Seeded random(7);
    random.fill_normal(tape.at(layers.x), kRows * kIn);
    random.fill_normal(tape.at(layers.pictures), 2 * kRows * kChannels);
    Replay replay;
    replay.batch.counts[kSamples] = 2;
    tape.replay(threads, replay);
    std::vector<float> values(tape.at(layers.y), tape.at(layers.y) + kRows * kOut);
    values.insert(values.end(), tape.at(layers.convolved), tape.at(layers.convolved) + 2 * kRows * kOut);
    return values;
  }
};

TEST(RoundedParameters, AreThoseThatRoundedProductsAloneRead) {
  SmallSession bf16, float32("", false), read_whole("w", true, 65);
  // Ranges of 64-byte lines: of 32 numbers, and of 16.
  EXPECT_EQ(bf16.planned("parameters, bf16"), 2u * (6176 + 576));  // 21 x 293, 21 x 27
  EXPECT_EQ(bf16.planned("parameters, fixed"), 4u * (32 + 32 + 1472));
  EXPECT_EQ(float32.planned("parameters, bf16"), 0u);
  EXPECT_EQ(float32.planned("parameters, fixed"), 4u * (6160 + 576 + 32 + 32 + 1472));
  EXPECT_EQ(read_whole.planned("parameters, bf16"), 2u * 576);
  for (const char* name : {"w", "conv.w"}) EXPECT_TRUE(bf16.is_rounded(name)) << name;
  for (const char* name : {"b", "conv.b", "row.w"}) EXPECT_FALSE(bf16.is_rounded(name)) << name;
  EXPECT_FALSE(read_whole.is_rounded("w"));
}

// Of few rows: the time of their product is that of reading them.
TEST(RoundedParameters, HaveACopyWhereAProductOfFewRowsAndSomethingElseReadThem) {
  for (const std::int64_t rows : {64, 65}) {
    SmallSession read_whole("w", true, rows);
    EXPECT_EQ(read_whole.planned("parameters, bf16"), 2u * (rows == 64 ? 6176 + 576 : 576)) << rows;
    EXPECT_EQ(read_whole.planned("parameters, fixed"), 4u * (6160 + 32 + 32 + 1472));
    EXPECT_EQ(read_whole.has("w.bf16"), rows == 64) << rows;
    EXPECT_FALSE(read_whole.is_rounded("w"));
    EXPECT_EQ(read_whole.type_read_by_product(), rows == 64 ? DType::kBFloat16 : DType::kFloat32) << rows;
    for (const char* name : {"b.bf16", "conv.w.bf16", "row.w.bf16"}) EXPECT_FALSE(read_whole.has(name)) << name;
  }
  SmallSession float32("w", false);
  EXPECT_EQ(float32.planned("parameters, bf16"), 0u);
}

TEST(RoundedParameters, GiveTheBitsOfThoseStoredWhole) {
  const std::vector<float> rounded = SmallSession().results();
  EXPECT_EQ(first_different_bit(rounded, SmallSession("w").results()), -1);
  // A product of more rows has no copy of bf16 beside the whole weights.
  EXPECT_EQ(first_different_bit(rounded, SmallSession("w", true, 65).results()), -1);
  EXPECT_EQ(first_different_bit(rounded, SmallSession("conv.w").results()), -1);
  EXPECT_NE(first_different_bit(rounded, SmallSession("", false).results()), -1);
}

// A second graph of the session reads it in full.
TEST(RoundedParameters, CountTheReadersOfAllGraphs) {
  SmallSession small;
  Graph& other = small.session.add_graph(kBounds, {});
  other.keep(scale(other, "whole", normal_weight(other, "w", kOut, kIn), 2.0f));
  EXPECT_EQ(small.planned("parameters, bf16"), 2u * (6176 + 576));  // a copy
  EXPECT_FALSE(small.is_rounded("w"));
}

TEST(RoundedParameters, AreNoneWhereAGraphHasGradients) {
  Session session;
  Graph& graph = session.add_graph(kBounds, {});
  const Tensor x = graph.input("x", fixed_rows(kRows), kIn);
  const Tensor h = linear(graph, "h", x, normal_weight(graph, "h.w", kIn, kIn), {});
  const Tensor y = linear(graph, "y", h, normal_weight(graph, "w", kOut, kIn, true), {});
  cotangent_loss(graph, {{y, graph.input("cotangent", fixed_rows(kRows), kOut)}});
  derive_backward(graph);
  choose_element_types(graph);
  for (const PlannedRange& range : session.plan(1)) EXPECT_NE(range.name, "parameters, bf16");
  for (int p = 0; p < session.parameters().size(); ++p) EXPECT_FALSE(session.parameters()[p].rounded);
}

}  // namespace
}  // namespace bascule::test::test_rounded_parameters
