// SPDX-License-Identifier: Apache-2.0
// Weights that linear layers alone read are packed where they lie: which, and that no bit of a result changes.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/graph/element_types.h"
#include "src/graph/operations.h"
#include "src/session/session.h"
#include "tests/graph/graph_run.h"
#include "tests/support/error_bound.h"

namespace bascule::test::test_packed_parameters {
namespace {

constexpr std::int64_t kRows = 70, kIn = 290, kOut = 2 * kPackedCols;
constexpr BatchCounts kBounds = counts_of(2, 4, 4);

Tensor weight(Graph& graph, const std::string& name, std::int64_t rows, std::int64_t cols) {
  Parameter p;
  p.name = name;
  p.rows = rows;
  p.cols = cols;
  p.trained = false;
  p.pieces = {{name, {rows, cols}, 0, rows * cols, {0.0f, 0.5f}}};
  return graph.parameter(p);
}

// Products: of a weight that nothing else reads, of one that something else reads whole, of one whose columns are not
// packed, of one row a batch, which stays float32, and of a weight that this row is multiplied with, too.
struct PackedSession {
  Session session;
  Threads threads{2, false};
  Tensor x, one;
  std::vector<Tensor> results;

  PackedSession(bool is_held, bool is_bf16, Products products = Products::kOurs) {
    Graph& graph = session.add_graph(kBounds, {});
    x = graph.input("x", fixed_rows(kRows), kIn);
    one = graph.input("one", fixed_rows(1), kIn);
    for (const auto& [name, rows] : {std::pair{"alone", kOut}, {"whole", kOut}, {"odd", kOut + 1}, {"both", kOut}})
      results.push_back(linear(graph, std::string("y of ") + name, x, weight(graph, name, rows, kIn), {}));
    results.push_back(linear(graph, "row of both", one, weight(graph, "both", kOut, kIn), {}));
    results.push_back(linear(graph, "row", one, weight(graph, "of a row", kOut, kIn), weight(graph, "bias", 1, kOut)));
    results.push_back(scale(graph, "scaled", weight(graph, "whole", kOut, kIn), 2.0f));
    for (const Tensor result : results) graph.keep(result);
    if (is_bf16) choose_element_types(graph);
    session.set_products(products);
    if (is_held) session.hold_packed();
  }
  std::size_t planned() {
    std::size_t bytes = 0;
    for (const PlannedRange& range : session.plan(2)) bytes += range.bytes;
    return bytes;
  }
  void load() {
    session.seal_alone(kernels_for(best_isa()), 2);
    StartWork work;
    initialise_parameters(&work, session.parameter_memory(), 5);
    work.run(threads);
  }
  // The bytes of the parameter.
  std::vector<unsigned char> bytes_of(const std::string& name) const {
    for (int p = 0; p < session.parameters().size(); ++p) {
      const Parameter& parameter = session.parameters()[p];
      if (parameter.name != name) continue;
      const Elements values = session.parameter_memory().elements(p);
      const auto* const first = static_cast<const unsigned char*>(values.data);
      return {first, first + parameter.elements() * (values.is_bf16() ? 2 : 4)};
    }
    ADD_FAILURE() << name;
    return {};
  }
  std::vector<float> replay() {
    const Tape& tape = session.tape(0);
    Seeded random(7);
    random.fill_normal(tape.at(x), kRows * kIn);
    random.fill_normal(tape.at(one), kIn);
    Replay replay;
    replay.batch.counts[kSamples] = 2;
    tape.replay(threads, replay);
    std::vector<float> values;
    for (const Tensor result : results) {
      const TensorInfo& info = session.graph(0)[result];
      values.insert(values.end(), tape.at(result), tape.at(result) + info.rows.fixed * info.cols);
    }
    return values;
  }
};

// In bf16 the bytes of a packed weight may be those of before: where the instruction set packs none.
TEST(PackedParameters, GiveTheBitsOfThoseThatAreNotPacked) {
  for (const bool is_bf16 : {false, true}) {
    PackedSession plain(false, is_bf16), packed(true, is_bf16);
    EXPECT_EQ(packed.planned(), plain.planned());
    plain.load();
    packed.load();
    const char* const kNames[] = {"alone", "whole", "odd", "both", "of a row"};
    for (const char* name : kNames) EXPECT_EQ(packed.bytes_of(name), plain.bytes_of(name)) << name;
    StartWork work;
    packed.session.pack(&work, packed.threads);
    plain.session.pack(&work, plain.threads);  // holds none
    if (!is_bf16) {
      EXPECT_NE(packed.bytes_of("alone"), plain.bytes_of("alone"));
    }
    EXPECT_NE(packed.bytes_of("of a row"), plain.bytes_of("of a row"));  // float32
    EXPECT_EQ(packed.bytes_of("both") == plain.bytes_of("both"), is_bf16);
    for (const char* name : {"whole", "odd"}) EXPECT_EQ(packed.bytes_of(name), plain.bytes_of(name)) << name;
    EXPECT_EQ(first_different_bit(packed.replay(), plain.replay()), -1) << is_bf16;
  }
}

TEST(PackedParameters, AreNoneOfAnotherLibrary) {
  PackedSession session(true, false, Products::kOnednn);
  (void)session.planned();
  for (const TensorInfo& info : session.session.graph(0).tensors()) EXPECT_FALSE(info.packed) << info.name;
}

}  // namespace
}  // namespace bascule::test::test_packed_parameters
