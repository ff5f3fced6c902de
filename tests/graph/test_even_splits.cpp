// SPDX-License-Identifier: Apache-2.0
#include "src/graph/launch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "tests/graph/graph_run.h"
#include "tests/support/error_bound.h"
#include "tests/support/own_products.h"

namespace bascule::test::test_even_splits {
namespace {

constexpr std::int64_t kRows = 1000, kCols = 96;

// Tasks of the largest batch, for so many threads.
template <typename Split>
std::vector<std::int64_t> tasks_of(const Split& split, const std::vector<int>& threads) {
  std::vector<std::int64_t> tasks;
  for (const int count : threads) {
    GraphRun run(counts_of(1, kRows, 1), 1);
    OwnProducts products(count);
    tasks.push_back(split(Launch(run.graph(), {}, kernels_for(best_isa()), products)).tasks(run.graph().bounds()));
  }
  return tasks;
}

// 1,000 rows in four tasks of 256 would leave most of many threads idle, and one of three.
TEST(EvenSplits, HaveATaskForEachThread) {
  const auto rows = [](const Launch& l) { return by_rows_evenly(l, text_rows(), kCols); };
  const auto elements = [](const Launch& l) { return by_elements_evenly(l, text_rows(), kCols); };
  ASSERT_EQ(by_rows(text_rows(), kCols).tasks(counts_of(1, kRows, 1)), 4);
  EXPECT_EQ(tasks_of(rows, {1, 2, 3, 16}), (std::vector<std::int64_t>{4, 4, 6, 16}));
  EXPECT_EQ(tasks_of(elements, {1, 2, 3, 16}), (std::vector<std::int64_t>{4, 4, 6, 16}));
  // None has fewer than 2048 elements.
  EXPECT_EQ(tasks_of(rows, {512}), (std::vector<std::int64_t>{42}));
  EXPECT_EQ(tasks_of(elements, {512}), (std::vector<std::int64_t>{47}));
}

TEST(EvenSplits, BitsDoNotDependOnHowRowsAreCut) {
  std::vector<float> first;
  for (const int threads : {1, 3, 24}) {
    GraphRun run(counts_of(64, kRows, kRows), threads);
    const Tensor x = run.source("x", text_rows(), kCols);
    const Tensor y = activation(run.graph(), "y", x, Activation::kGelu);
    const Tensor weight = run.parameter("norm.weight", 1, kCols), bias = run.parameter("norm.bias", 1, kCols);
    const Tensor z = layer_norm(run.graph(), "z", y, weight, bias, 1e-5f);
    const Tensor picked = gather_rows(run.graph(), "picked", z, run.field("selected_rows"));
    for (const Tensor kept : {z, picked}) run.graph().keep(kept);
    run.finish({z, picked});
    Seeded random(3);
    const std::vector<std::int64_t> lengths(50, 19);  // 950 rows: fewer than the largest batch
    run.replay(TestBatch(random, lengths, 100).batch());
    std::vector<float> values = run.rows_of(z, 950);
    for (const std::vector<float>& more : {run.rows_of(picked, 475), run.all_gradients()})
      values.insert(values.end(), more.begin(), more.end());
    if (first.empty()) first = values;
    EXPECT_EQ(first_different_bit(values, first), -1) << threads << " threads";
  }
}

}  // namespace
}  // namespace bascule::test::test_even_splits
