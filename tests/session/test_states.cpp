// SPDX-License-Identifier: Apache-2.0
// Memory that outlives a replay: graph 0 writes rows of a cache, graph 1 reads them in a replay of its own.
#include "src/graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/graph/recompute.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/threads.h"
#include "src/session/session.h"
#include "tests/graph/graph_run.h"
#include "tests/graph/word_model.h"

namespace bascule::test::test_states {
namespace {

constexpr BatchCounts kBounds = counts_of(6, 60, 30);
constexpr std::int64_t kCacheRows = 50, kCols = 5;

Tensor cache(Graph& graph) { return graph.state({"cache", kCacheRows, kCols}); }

// The rows of all tokens go into the rows of the cache that the tokens' labels name.
Tensor record_writer(Graph& graph) {
  const EmbeddingTables tables = {matrix(graph, "word", 90, kCols), matrix(graph, "position", 70, kCols),
                                  matrix(graph, "type", 1, kCols)};
  const Tensor rows =
      text_embedding(graph, "rows", tables, {graph.field("token_ids"), graph.field("position_ids"), {}}, {1, 1});
  graph.keep(rows);
  store_rows(graph, cache(graph), rows, graph.field("labels"));
  return rows;
}

Tensor record_reader(Graph& graph) {
  const Tensor out = gather_rows(graph, "out", cache(graph), graph.field("labels"));
  graph.keep(out);
  return out;
}

struct TwoGraphs {
  Session session;
  Tensor written, read;
  Threads threads{2, false};

  TwoGraphs() {
    written = record_writer(session.add_graph(kBounds, batch_fields()));
    read = record_reader(session.add_graph(kBounds, batch_fields()));
    session.seal_alone(kernels_for(best_isa()), 2);
    const ParameterMemory memory = session.parameter_memory();
    Seeded random(3);
    for (std::int64_t i = 0; i < session.layout().fixed_elements; ++i)
      memory.fixed[i] = static_cast<float>(random.normal());
    for (std::int64_t i = 0; i < session.layout().trained_elements; ++i)
      memory.trained[i] = static_cast<float>(random.normal());
  }
  // The values of a graph's kept tensor after a replay of the batch.
  std::vector<float> replay(std::size_t number, Tensor kept, const TestBatch& batch) {
    Replay replay;
    replay.batch = batch.batch();
    session.tape(number).replay(threads, replay);
    const float* const values = session.tape(number).at(kept);
    return {values, values + static_cast<std::int64_t>(batch.labels.size()) * kCols};
  }
};

// Two texts whose tokens name the cache's rows from `first` on.
TestBatch batch_naming(std::int32_t first) {
  Seeded random(static_cast<std::uint64_t>(40 + first));
  TestBatch batch(random, {9, 5}, 90);
  for (std::int64_t i = 0; i < batch.text_rows(); ++i) batch.labels.push_back(first + static_cast<std::int32_t>(i));
  return batch;
}

TEST(Session, TheLowerBoundIsThatOfTheLargestWorkspace) {
  for (const bool largest_is_last : {false, true}) {
    Session session;
    for (const std::int64_t rows : {largest_is_last ? 30 : 60, largest_is_last ? 60 : 30})
      record_writer(session.add_graph(counts_of(6, rows, 30), batch_fields()));
    session.plan(1);
    const std::size_t first = session.workspace(0).lower_bound_bytes, second = session.workspace(1).lower_bound_bytes;
    EXPECT_EQ(first < second, largest_is_last);
    EXPECT_EQ(session.workspace_lower_bound_bytes(), std::max(first, second));
  }
}

TEST(States, AreZeroBeforeTheFirstReplay) {
  TwoGraphs graphs;
  const TestBatch batch = batch_naming(7);
  EXPECT_EQ(graphs.replay(1, graphs.read, batch), std::vector<float>(batch.labels.size() * kCols, 0.0f));
}

TEST(States, KeepWhatAnotherGraphWroteInEarlierReplays) {
  TwoGraphs graphs;
  const TestBatch first = batch_naming(3), second = batch_naming(30);
  const std::vector<float> written_first = graphs.replay(0, graphs.written, first);
  const std::vector<float> written_second = graphs.replay(0, graphs.written, second);
  EXPECT_NE(written_first, written_second);
  EXPECT_EQ(graphs.replay(1, graphs.read, second), written_second);
  EXPECT_EQ(graphs.replay(1, graphs.read, first), written_first);
  graphs.replay(0, graphs.written, first);
  EXPECT_EQ(graphs.replay(1, graphs.read, first), written_first) << "rows are replaced, not added to";
}

// A projection of queries, keys and values leaves the latter two, head by head.
TEST(States, KeepKeysAndValuesByHead) {
  constexpr std::int64_t kHeads = 3, kSize = 2, kInner = kHeads * kSize;
  Session session;
  Graph& graph = session.add_graph(kBounds, batch_fields());
  const Tensor x =
      text_embedding(graph, "x", {matrix(graph, "word", 90, kCols), {}, {}}, {graph.field("token_ids"), {}, {}}, {});
  const Tensor all = linear(graph, "all", x, matrix(graph, "all", 3 * kInner, kCols), Tensor{});
  graph.keep(all);
  const Tensor named = graph.state({"named", kHeads * kCacheRows, 2 * kSize}),
               in_order = graph.state({"in order", kHeads * 60, 2 * kSize});
  store_keys(graph, named, all, kInner, 2 * kInner, kHeads, graph.field("labels"));
  store_keys(graph, in_order, all, 2 * kInner, 0, kHeads, {});
  session.seal_alone(kernels_for(best_isa()), 2);
  Seeded random(3);
  for (std::int64_t i = 0; i < session.layout().trained_elements; ++i)
    session.parameter_memory().trained[i] = static_cast<float>(random.normal());
  const TestBatch batch = batch_naming(11);
  Replay replay;
  replay.batch = batch.batch();
  Threads threads(2, false);
  session.tape(0).replay(threads, replay);
  const float *const from = session.tape(0).at(all), *const to = session.tape(0).at(named),
                     *const also = session.tape(0).at(in_order);
  ASSERT_NE(from[0], 0.0f);
  for (std::int64_t row = 0; row < batch.text_rows(); ++row) {
    for (std::int64_t c = 0; c < kInner; ++c) {
      const std::int64_t head = c / kSize, col = c % kSize;
      const float* const place = to + (head * kCacheRows + 11 + row) * 2 * kSize + col;
      ASSERT_EQ(place[0], from[row * 3 * kInner + kInner + c]) << row << ", " << c;
      ASSERT_EQ(place[kSize], from[row * 3 * kInner + 2 * kInner + c]) << row << ", " << c;
      const float* const second = also + (head * 60 + row) * 2 * kSize + col;
      ASSERT_EQ(second[0], from[row * 3 * kInner + 2 * kInner + c]) << row << ", " << c;
      ASSERT_EQ(second[kSize], from[row * 3 * kInner + c]) << row << ", " << c;
    }
  }
}

TEST(States, StandInThePlanToTheByteBesideTheWorkspace) {
  Session session;
  record_writer(session.add_graph(kBounds, batch_fields()));
  record_reader(session.add_graph(kBounds, batch_fields()));
  const MemoryPlan plan = make_memory_plan(session.plan(2), 0);
  // 50 rows take the place of 64, of 5 floats each.
  EXPECT_EQ(plan["state"].bytes, std::size_t{64 * 5 * 4});
  EXPECT_NE(draw_arena(session.graph(0), session.workspace(0), true).find("<title>cache, "), std::string::npos);
  Session without;
  Graph& graph = without.add_graph(kBounds, batch_fields());
  graph.keep(gather_rows(graph, "out", matrix(graph, "word", 90, kCols), graph.field("labels")));
  for (const PlannedRange& range : without.plan(2)) EXPECT_NE(range.name, "state");
}

TEST(States, OfDifferentNamesLieBesideEachOther) {
  StateSet states;
  EXPECT_EQ(states.add({"a", 17, 3}), 0);
  EXPECT_EQ(states.add({"b", 1, 1, DType::kInt32}), 1);
  EXPECT_EQ(states.add({"a", 17, 3}), 0);
  const StateLayout layout = lay_out_states(states);
  EXPECT_EQ(layout.places[0].bytes, std::size_t{32 * 3 * 4});
  EXPECT_EQ(layout.places[1].offset, layout.places[0].bytes);
  EXPECT_EQ(layout.bytes, layout.places[1].offset + 64);
}

// A cache may hold other values by the time of backward, so what reads it is kept, not computed again; and no gradient
// goes through it.
TEST(States, AreNeitherReadAgainNorDifferentiated) {
  ParameterSet parameters;
  StateSet states;
  Graph graph(parameters, kBounds, batch_fields(), &states);
  Tensor out;
  for (const char* const layer : {"layer.0", "layer.1", "layer.2"}) {
    graph.set_scope(layer);
    const Tensor weight = matrix(graph, std::string(layer) + ".w", kCols, out ? 2 * kCols : kCols);
    Tensor x = gather_rows(graph, "x", cache(graph), graph.field("labels"));
    if (out) x = concatenate(graph, "both", x, out);
    x = activation(graph, "a", linear(graph, "y", x, weight, Tensor{}), Activation::kGelu);
    store_rows(graph, cache(graph), x, graph.field("labels"));
    out = x;
  }
  cross_entropy_loss(graph, linear(graph, "logits", out, matrix(graph, "words", 90, kCols), Tensor{}),
                     graph.field("labels"));
  derive_backward(graph);
  recompute(graph, std::vector<Recompute>(layers_of(graph).size(), Recompute::kAll));
  int repeated = 0;
  for (const Node& node : graph.nodes()) {
    repeated += node.again ? 1 : 0;
    for (const Operand& operand : node.operands) {
      const bool is_state = operand && graph[operand.tensor].storage == Storage::kState;
      EXPECT_FALSE(is_state && (node.again || node.backward)) << node.kind->name;
    }
  }
  EXPECT_GT(repeated, 0);
  for (const TensorInfo& tensor : graph.tensors()) EXPECT_EQ(tensor.name.find("d_cache"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test::test_states
