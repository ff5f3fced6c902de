// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "src/doctor/equal_rows.h"

namespace bascule {
namespace {

// Rows as (caption, picture).
BatchFigures figures_of(const std::vector<std::pair<int, int>>& rows, std::int64_t batch) {
  RowDigests captions, pictures;
  for (const auto& [caption, picture] : rows) {
    captions.push_back(static_cast<std::uint64_t>(1 + caption));
    pictures.push_back(static_cast<std::uint64_t>(1 + picture));
  }
  return batch_figures(captions, pictures, batch);
}

// Expected: means over all 70 batches, enumerated in Python; the bound of a batch was compared there with the minimum
// that LBFGS finds for free similarities of captions, pictures and both (PyTorch, float64).
TEST(Batches, AreTheMeansOverAllBatches) {
  const BatchFigures figures = figures_of({{0, 0}, {0, 1}, {1, 1}, {2, 2}, {2, 2}, {3, 3}, {0, 0}, {4, 5}}, 4);
  EXPECT_EQ(figures.batch, 4);
  EXPECT_NEAR(figures.loss_floor, 0.28678871765241298, 1e-14);
  EXPECT_NEAR(figures.equal_pairs, 1.0714285714285714, 1e-14);
  EXPECT_NEAR(figures.rows_in_pairs, 1.8, 1e-14);
}

// Expected: sums of hypergeometric chances in exact integers, Python's fractions.
TEST(Batches, OfManyRowsFollowTheHypergeometricLaw) {
  std::vector<std::pair<int, int>> rows;
  for (int i = 0; i < 500; ++i) rows.emplace_back(i, i / 5);        // five captions for each picture
  for (int i = 0; i < 100; ++i) rows.emplace_back(1000, 1000 + i);  // one caption for a hundred pictures
  for (int i = 0; i < 400; ++i) rows.emplace_back(2000 + i, 2000 + i);
  const BatchFigures figures = figures_of(rows, 128);
  EXPECT_NEAR(figures.loss_floor, 0.28074406070908281, 1e-13);
  EXPECT_NEAR(figures.equal_pairs, 96.820020020020024, 1e-11);
  EXPECT_NEAR(figures.rows_in_pairs, 39.680406080746735, 1e-11);
}

TEST(Batches, DifferentRowsHaveNoFloor) {
  const BatchFigures figures = figures_of({{0, 0}, {1, 1}, {2, 2}}, 2);
  EXPECT_EQ(figures.loss_floor, 0.0);
  EXPECT_EQ(figures.equal_pairs, 0.0);
  EXPECT_EQ(figures.rows_in_pairs, 0.0);
}

TEST(Batches, ABatchOfAllRowsHasAllPairs) {
  const BatchFigures figures = figures_of({{0, 0}, {0, 1}, {1, 2}}, 100);
  EXPECT_EQ(figures.batch, 3);
  EXPECT_NEAR(figures.equal_pairs, 1.0, 1e-15);
  EXPECT_NEAR(figures.rows_in_pairs, 2.0, 1e-15);
}

TEST(Batches, OneRowHasNoNegatives) { EXPECT_EQ(figures_of({{0, 0}, {0, 0}}, 1).loss_floor, 0.0); }

TEST(Batches, RowsWithoutContentAreLikeNoOther) {
  EXPECT_EQ(batch_figures({kNoContent, kNoContent, 3}, {4, 5, kNoContent}, 2).equal_pairs, 0.0);
}

}  // namespace
}  // namespace bascule
