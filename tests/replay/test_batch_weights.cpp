// SPDX-License-Identifier: Apache-2.0
#include "src/replay/batch_weights.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace bascule {
namespace {

// Rows of one micro-batch, by rank and term.
struct MicroBatch {
  std::vector<RowsByTerm> ranks;

  RowsByTerm all() const {
    RowsByTerm sum = {};
    for (const RowsByTerm& own : ranks) {
      for (std::size_t t = 0; t < sum.size(); ++t) sum[t] += own[t];
    }
    return sum;
  }
};

using Weights = std::vector<std::vector<double>>;  // by micro-batch and rank

// The weights of a term in an update that begins with these units, with the update's factor.
Weights weights_of(const std::vector<MicroBatch>& update, const RowsByTerm& units, std::size_t terms,
                   std::size_t term) {
  Weights weights(update.size());
  for (std::size_t rank = 0; rank < update[0].ranks.size(); ++rank) {
    BatchWeights own(terms);
    own.begin(units);
    for (std::size_t i = 0; i < update.size(); ++i) {
      own.count(update[i].ranks[rank], update[i].all());
      weights[i].push_back(own.of_all(term) * own.share(term));
    }
    for (std::size_t i = 0; i < update.size(); ++i) weights[i].back() *= own.factor();
  }
  return weights;
}

TEST(BatchWeights, OneBatchOfOneRankIsTheWholeUpdate) {
  BatchWeights weights(1);
  weights.begin({7.0});
  weights.count({7.0}, {7.0});
  EXPECT_EQ(weights.share(0), 1.0);
  EXPECT_EQ(weights.of_all(0), 1.0);
  EXPECT_EQ(weights.factor(), 1.0);
}

TEST(BatchWeights, MicroBatchesWeighByTheirRows) {
  const std::vector<MicroBatch> update = {{{{2.0}}}, {{{5.0}}}, {{{1.0}}}};
  EXPECT_EQ(weights_of(update, {2.0}, 1, 0), (Weights{{2.0 / 8.0}, {5.0 / 8.0}, {1.0 / 8.0}}));
  EXPECT_EQ(weights_of(update, {8.0}, 1, 0), (Weights{{2.0 / 8.0}, {5.0 / 8.0}, {1.0 / 8.0}}));
}

TEST(BatchWeights, RanksWeighByTheirShareOfEachMicroBatch) {
  const std::vector<MicroBatch> update = {{{{3.0}, {1.0}}}, {{{2.0}, {2.0}}}};
  EXPECT_EQ(weights_of(update, {4.0}, 1, 0), (Weights{{3.0 / 8.0, 1.0 / 8.0}, {2.0 / 8.0, 2.0 / 8.0}}));
}

TEST(BatchWeights, EachOfTwoTermsIsAMeanOverItsOwnRows) {
  const std::vector<MicroBatch> update = {{{{4.0, 6.0}, {4.0, 2.0}}}, {{{4.0, 3.0}, {4.0, 5.0}}}};
  const RowsByTerm of_update = {16.0, 16.0};
  EXPECT_EQ(weights_of(update, of_update, 2, 0), (Weights{{4.0 / 16.0, 4.0 / 16.0}, {4.0 / 16.0, 4.0 / 16.0}}));
  EXPECT_EQ(weights_of(update, of_update, 2, 1), (Weights{{6.0 / 16.0, 2.0 / 16.0}, {3.0 / 16.0, 5.0 / 16.0}}));
}

TEST(BatchWeights, ARankWithoutRowsWeighsNothing) {
  const std::vector<MicroBatch> update = {{{{4.0}, {4.0}}}, {{{4.0}, {0.0}}}};
  EXPECT_EQ(weights_of(update, {8.0}, 1, 0), (Weights{{4.0 / 12.0, 4.0 / 12.0}, {4.0 / 12.0, 0.0}}));
}

TEST(BatchWeights, AnUpdateWithoutRowsHasNoFactor) {
  BatchWeights weights(1);
  weights.begin({0.0});
  weights.count({0.0}, {0.0});
  EXPECT_EQ(weights.of_all(0), 0.0);
  EXPECT_EQ(weights.factor(), 1.0);
  EXPECT_FALSE(weights.has_rows());
  weights.count({1.0}, {1.0});  // the next micro-batch
  EXPECT_TRUE(weights.has_rows());
  BatchWeights pairs(2);
  pairs.begin({0.0, 4.0});
  pairs.count({0.0, 4.0}, {0.0, 4.0});
  EXPECT_TRUE(pairs.has_rows());
}

TEST(BatchWeights, EveryUpdateIsCountedAnew) {
  BatchWeights weights(1);
  for (const double rows : {8.0, 4.0}) {
    weights.begin({rows});
    weights.count({rows}, {rows});
    EXPECT_EQ(weights.of_all(0), 1.0);
    EXPECT_EQ(weights.factor(), 1.0);
  }
}

// After the seal nothing may throw.
static_assert(noexcept(std::declval<BatchWeights>().begin(std::declval<const RowsByTerm&>())));
static_assert(noexcept(std::declval<BatchWeights>().count({}, {})));

}  // namespace
}  // namespace bascule
