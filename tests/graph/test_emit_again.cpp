// SPDX-License-Identifier: Apache-2.0
// A segment of a graph, emitted once more for tensors of its own: what recomputation and another number type stand on.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"
#include "tests/graph/some_layers.h"

namespace bascule::test::test_emit_again {
namespace {

// Forward nodes of three layers, from `first` to before `end`, below a head.
struct Segment {
  std::size_t first = 0, end = 0;
};

Segment record(GraphRun& run) {
  Graph& g = run.graph();
  const Tensor x = run.source("x", text_rows(), kLayerWidth);
  const Segment segment{g.nodes().size(), 0};
  Tensor y = x;
  for (int number = 0; number < 3; ++number) y = post_norm_layer(run, number, y);
  const std::size_t end = g.nodes().size();
  cross_entropy_loss(g, linear(g, "logits", y, run.parameter("head.w", 7, kLayerWidth), Tensor{}), run.field("labels"));
  derive_backward(g);
  return {segment.first, end};
}

// Backward of the segment as it would be recomputed: its forward nodes once more, then all backward nodes once more,
// which read the copies. Both passes write the same gradients; what the second leaves is looked at.
TEST(EmitAgain, GradientsOfARecomputedSegmentHaveTheSameBits) {
  const std::vector<TestBatch> batches = labelled_batches(7);
  GraphRun plain(kBounds), recomputed(kBounds);
  (void)record(plain);
  const Segment segment = record(recomputed);
  Graph& g = recomputed.graph();
  const std::size_t recorded = g.nodes().size(), recorded_tensors = g.tensors().size();
  std::size_t backward = recorded;
  while (backward > 0 && g.nodes()[backward - 1].backward) --backward;

  std::vector<Tensor> tensors;
  g.emit_again(segment.first, segment.end, &tensors);
  std::set<std::int32_t> originals;  // activations of the segment that were computed anew
  for (std::size_t i = 0; i < recorded_tensors; ++i) {
    if (tensors[i]) originals.insert(static_cast<std::int32_t>(i));
  }
  ASSERT_GT(originals.size(), 30u);
  const std::size_t copies = g.nodes().size();
  g.emit_again(backward, recorded, &tensors);
  ASSERT_EQ(g.nodes().size(), copies + recorded - backward);
  for (std::size_t n = recorded; n < g.nodes().size(); ++n) {
    for (const Operand& operand : g.nodes()[n].operands)
      EXPECT_EQ(originals.count(operand.tensor.index), 0u) << g[operand.tensor].name << " is read, not its copy";
  }

  plain.seal(kernels_for(best_isa()));
  recomputed.seal(kernels_for(best_isa()));
  for (int p = 0; p < plain.parameters().size(); ++p) {
    const std::string& name = plain.parameters()[p].name;
    recomputed.set_values(name, plain.values(name));
  }
  recomputed.set_values("x.input", plain.values("x.input"));
  for (const TestBatch& batch : batches) {
    plain.replay(batch.batch(), 1.0f, false, 3);
    recomputed.replay(batch.batch(), 1.0f, false, 3);
    for (int p = 0; p < plain.parameters().size(); ++p) {
      const std::string& name = plain.parameters()[p].name;
      EXPECT_EQ(first_different_bit(recomputed.gradient(name), plain.gradient(name)), -1) << name;
    }
  }
}

// The copies are placed by lifetimes of their own: nothing of the originals has to live until backward reads it.
TEST(EmitAgain, CopiesHaveTensorsOfTheirOwnWithTheSameShape) {
  GraphRun run(kBounds);
  const Segment segment = record(run);
  Graph& g = run.graph();
  const std::size_t before = g.tensors().size();
  std::vector<Tensor> tensors;
  g.emit_again(segment.first, segment.end, &tensors);
  for (std::size_t i = 0; i < before; ++i) {
    if (!tensors[i]) continue;
    const TensorInfo &original = g.tensors()[i], &copy = g[tensors[i]];
    EXPECT_GE(static_cast<std::size_t>(tensors[i].index), before);
    EXPECT_EQ(original.storage, Storage::kActivation) << original.name;
    EXPECT_EQ(copy.name, original.name);
    EXPECT_TRUE(copy.rows == original.rows && copy.cols == original.cols && copy.dtype == original.dtype);
    EXPECT_NE(copy.may_share.index, static_cast<std::int32_t>(i));
  }
}

}  // namespace
}  // namespace bascule::test::test_emit_again
