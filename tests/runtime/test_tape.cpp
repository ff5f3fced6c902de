// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/tape.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/runtime/guard.h"
#include "tests/graph/graph_run.h"
#include "tests/support/error_bound.h"

namespace bascule::test {
namespace {

constexpr BatchCounts kBounds = counts_of(6, 60, 30);

// One of most kinds of operation, wide enough that steps have several tasks.
void record_small_model(GraphRun& run) {
  Graph& g = run.graph();
  const SampleRows text = run.text();
  g.set_scope("embeddings");
  const Tensor e = text_embedding(
      g, "e", {run.parameter("word", 30, 96), run.parameter("position", 70, 96), run.parameter("type", 1, 96)},
      {run.field("token_ids"), run.field("position_ids"), {}}, {1, 1});
  g.set_scope("layer");
  const Tensor all = linear(g, "qkv", e, run.parameter("qkv.w", 288, 96), run.parameter("qkv.b", 1, 288));
  const Tensor a =
      attention(g, "a", {all, 0}, text, {all, 96}, {all, 192}, text, 4, 24, {0.1f, 1}, run.field("sample_keys"));
  const Normalized n =
      add_layer_norm(g, "n", e, linear(g, "o", a, run.parameter("o.w", 96, 96), run.parameter("o.b", 1, 96)),
                     run.parameter("n.w", 1, 96), run.parameter("n.b", 1, 96), 1e-5f, {0.1f, 2}, text.row_keys);
  const Tensor up = activation(
      g, "up", linear(g, "u", n.y, run.parameter("u.w", 300, 96), run.parameter("u.b", 1, 300)), Activation::kGelu);
  g.set_scope("head");
  const Tensor rows =
      gather_rows(g, "rows", linear(g, "d", up, run.parameter("d.w", 96, 300), run.parameter("d.b", 1, 96)),
                  run.field("selected_rows"));
  cross_entropy_loss(g, linear(g, "logits", rows, run.parameter("decoder", 30, 96), Tensor{}), run.field("labels"));
  run.finish({});
}

TestBatch labelled_batch(const std::vector<std::int64_t>& lengths) {
  Seeded random(51);
  TestBatch batch(random, lengths, 30);
  for (std::size_t m = 0; m < batch.selected.size(); ++m)
    batch.labels.push_back(static_cast<std::int32_t>(random.integer(-1, 29)));
  return batch;
}

TEST(Tape, AReplayAllocatesNothingOfOurs) {
  GraphRun run(kBounds, 3);
  record_small_model(run);
  const TestBatch batch = labelled_batch({20, 1, 7, 5}), full = labelled_batch({10, 10, 10, 10, 10, 10});
  const Batch batches[] = {batch.batch(), full.batch()};
  seal_memory();  // the first allocation of ours ends the test
  for (const Batch& one : batches) run.replay(one);
  for (const Batch& one : batches) run.replay(one);
  open_memory();
}

TEST(Tape, TheWorkspacesContentsBeforeAReplayDoNotMatter) {
  GraphRun run(kBounds, 2);
  record_small_model(run);
  const TestBatch batch = labelled_batch({20, 1, 7, 5}), full = labelled_batch({10, 10, 10, 10, 10, 10});
  run.replay(batch.batch());
  const std::vector<float> first = run.all_gradients();
  run.replay(full.batch());
  run.replay(batch.batch());
  EXPECT_EQ(first_different_bit(run.all_gradients(), first), -1);
}

TEST(Tape, AnyNumberOfThreadsGivesTheSameBits) {
  std::vector<float> one;
  for (const int threads : {1, 2, 3, 4, 7}) {
    GraphRun run(kBounds, threads);
    record_small_model(run);
    run.replay(labelled_batch({20, 1, 7, 5}).batch());
    run.replay(labelled_batch({10, 10, 10, 10, 10, 10}).batch(), 1.0f, true);
    if (threads == 1) one = run.all_gradients();
    EXPECT_EQ(first_different_bit(run.all_gradients(), one), -1) << threads << " threads";
  }
}

TEST(Tape, NodeTimesNameEveryNodeAndCountItsWork) {
  GraphRun run(kBounds, 2);
  record_small_model(run);
  run.replay(labelled_batch({10, 10, 10, 10, 10, 10}).batch());
  const std::vector<NodeTime> times = run.tape().node_times(counts_of(4, 33, 0));
  ASSERT_EQ(times.size(), run.graph().nodes().size());
  double seconds = 0.0, forward = 0.0;
  for (std::size_t n = 0; n < times.size(); ++n) {
    EXPECT_EQ(times[n].kind, run.graph().nodes()[n].kind->name);
    EXPECT_EQ(times[n].backward, run.graph().nodes()[n].backward);
    EXPECT_FALSE(times[n].scope.empty());
    seconds += times[n].seconds;
    if (!times[n].backward) forward += times[n].seconds;
  }
  EXPECT_GT(seconds, 0.0);
  EXPECT_NEAR(run.tape().seconds(false) + run.tape().seconds(true), seconds, 1e-9 * seconds + 1e-9);
  EXPECT_NEAR(run.tape().seconds(false), forward, 1e-9 * seconds + 1e-9);
  // x W^T of the 33 rows asked for: two operations for each of 33 * 288 * 96 products.
  EXPECT_EQ(times[1].kind, "linear");
  EXPECT_DOUBLE_EQ(times[1].flops, 2.0 * 33 * 288 * 96);
}

// Two operations share a weight, so its gradient is written twice.
TEST(Tape, AGradientIsFinalBehindItsLastWrite) {
  GraphRun run(kBounds, 1);
  Graph& g = run.graph();
  g.set_scope("layer");
  const Tensor e = text_embedding(
      g, "e", {run.parameter("word", 30, 96), run.parameter("position", 70, 96), run.parameter("type", 1, 96)},
      {run.field("token_ids"), run.field("position_ids"), {}}, {1, 1});
  const Tensor weight = run.parameter("w", 96, 96);
  const Tensor twice = linear(g, "second", linear(g, "first", e, weight, Tensor{}), weight, Tensor{});
  const Tensor rows = gather_rows(g, "rows", twice, run.field("selected_rows"));
  cross_entropy_loss(g, linear(g, "logits", rows, run.parameter("decoder", 30, 96), Tensor{}), run.field("labels"));
  run.finish({});
  const std::int32_t parameter = g[weight].parameter;
  int last = -1, writes = 0;
  for (std::size_t n = 0; n < g.nodes().size(); ++n) {
    for (const Operand& use : g.nodes()[n].operands) {
      if (!use) continue;
      const TensorInfo& info = g[use.tensor];
      if (use.access == Access::kRead || info.storage != Storage::kGradient || info.parameter != parameter) continue;
      last = static_cast<int>(n);
      ++writes;
    }
  }
  ASSERT_EQ(writes, 2);
  EXPECT_EQ(run.tape().steps_until_final()[static_cast<std::size_t>(parameter)],
            static_cast<std::int64_t>(run.tape().steps_below(last + 1)));
}

}  // namespace
}  // namespace bascule::test
