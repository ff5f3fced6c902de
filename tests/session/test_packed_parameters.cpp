// SPDX-License-Identifier: Apache-2.0
// Weights that linear layers alone read are packed where they lie: which, and that no bit of a result changes.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/graph/element_types.h"
#include "src/graph/operations.h"
#include "src/session/session.h"
#include "tests/graph/graph_run.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/error_bound.h"

namespace bascule::test::test_packed_parameters {
namespace {

constexpr std::int64_t kIn = 320, kOut = 2 * kPackedCols;
constexpr BatchCounts kBounds = counts_of(2, 4, 4);

// Products: of a weight that nothing else reads, of one that something else reads whole, of one whose columns are not
// packed, of one row a batch, which stays float32, and of a weight that this row is multiplied with, too.
struct PackedSession {
  const std::int64_t batch;
  Session session;
  Threads threads{2, false};
  Tensor x, one;
  std::vector<Tensor> results;

  PackedSession(bool is_held, bool is_bf16, std::int64_t rows, Products products = Products::kOurs) : batch(rows) {
    Graph& graph = session.add_graph(kBounds, {});
    x = graph.input("x", fixed_rows(batch), kIn);
    one = graph.input("one", fixed_rows(1), kIn);
    for (const auto& [name, out] : {std::pair{"alone", kOut}, {"whole", kOut}, {"odd", kOut + 1}, {"both", kOut}})
      results.push_back(linear(graph, std::string("y of ") + name, x, normal_weight(graph, name, out, kIn), {}));
    results.push_back(linear(graph, "row of both", one, normal_weight(graph, "both", kOut, kIn), {}));
    results.push_back(
        linear(graph, "row", one, normal_weight(graph, "of a row", kOut, kIn), normal_weight(graph, "bias", 1, kOut)));
    results.push_back(scale(graph, "scaled", normal_weight(graph, "whole", kOut, kIn), 2.0f));
    for (const Tensor result : results) graph.keep(result);
    if (is_bf16) choose_element_types(graph);
    session.set_products(products);
    if (is_held) session.allow_packing();
  }
  std::size_t planned() {
    std::size_t bytes = 0;
    for (const PlannedRange& range : session.plan(2)) bytes += range.bytes;
    return bytes;
  }
  void load(Isa isa) {
    session.seal_alone(kernels_for(isa), 2);
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
    random.fill_normal(tape.at(x), static_cast<std::size_t>(batch * kIn));
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

// Of few rows in bf16, "whole" and "both" have a copy for products.
TEST(PackedParameters, GiveTheBitsOfThoseThatAreNotPacked) {
  for (const Isa isa : isas()) {
    for (const auto& [is_bf16, rows] : {std::pair{false, 70}, {true, 70}, {true, 21}}) {
      const std::string where = std::string(isa_name(isa)) + (is_bf16 ? " bf16 " : " ") + std::to_string(rows);
      PackedSession plain(false, is_bf16, rows), packed(true, is_bf16, rows);
      EXPECT_EQ(packed.planned(), plain.planned());
      plain.load(isa);
      packed.load(isa);
      const auto differs = [&](const std::string& name) { return packed.bytes_of(name) != plain.bytes_of(name); };
      for (const char* name : {"alone", "whole", "odd", "both", "of a row"}) EXPECT_FALSE(differs(name)) << name;
      packed.session.pack(packed.threads);
      plain.session.pack(plain.threads);  // has none
      const bool is_packed = packs_columns(kernels_for(isa), is_bf16, kIn), has_copies = is_bf16 && rows <= 64;
      EXPECT_EQ(differs("alone"), is_packed) << where;
      EXPECT_TRUE(differs("of a row")) << where;  // float32
      EXPECT_EQ(differs("both"), !is_bf16 || has_copies) << where;
      for (const char* name : {"whole", "odd"}) EXPECT_FALSE(differs(name)) << name << " " << where;
      if (has_copies) {
        EXPECT_EQ(differs("whole.bf16"), is_packed) << where;
      }
      EXPECT_EQ(first_different_bit(packed.replay(), plain.replay()), -1) << where;
    }
  }
}

TEST(PackedParameters, AreNoneOfAnotherLibrary) {
  PackedSession session(true, false, 70, Products::kOnednn);
  if (onednn_version() == "none") GTEST_SKIP() << "built without oneDNN";
  session.load(best_isa());
  for (const TensorInfo& info : session.session.graph(0).tensors()) EXPECT_FALSE(info.packed) << info.name;
}

}  // namespace
}  // namespace bascule::test::test_packed_parameters
