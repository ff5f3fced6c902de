// SPDX-License-Identifier: Apache-2.0
#include "src/train/retrieval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "src/base/align.h"
#include "src/runtime/threads.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

// Rows of whole numbers, so that every product is exact and ties are real.
struct Rows {
  std::int64_t rows, width;
  std::vector<float> queries, candidates;
  std::vector<std::int32_t> pictures;

  Rows(Seeded& random, std::int64_t rows_, std::int64_t width_, int pictures_)
      : rows(rows_), width(width_), pictures(static_cast<std::size_t>(rows_)) {
    const std::size_t padded = static_cast<std::size_t>(align_up<std::int64_t>(rows, Retrieval::kBlock) * width);
    queries.resize(padded);
    candidates.resize(padded);
    for (float& v : queries) v = static_cast<float>(random.integer(-2, 2));
    for (float& v : candidates) v = static_cast<float>(random.integer(-2, 2));
    for (std::int32_t& p : pictures) p = static_cast<std::int32_t>(random.integer(0, pictures_ - 1));
  }

  double score(std::int64_t q, std::int64_t d) const {
    double sum = 0.0;
    for (std::int64_t k = 0; k < width; ++k) {
      sum += static_cast<double>(queries[static_cast<std::size_t>(q * width + k)]) *
             static_cast<double>(candidates[static_cast<std::size_t>(d * width + k)]);
    }
    return sum;
  }

  // The definition, read off design's sentence: a hit is any row with the same picture; ties count against the query.
  double recall(int k) const {
    int hits = 0;
    for (std::int64_t q = 0; q < rows; ++q) {
      double best = score(q, q);
      for (std::int64_t d = 0; d < rows; ++d) {
        if (same(q, d)) best = std::max(best, score(q, d));
      }
      int ahead = 0;
      for (std::int64_t d = 0; d < rows; ++d) ahead += !same(q, d) && score(q, d) >= best ? 1 : 0;
      hits += ahead < k ? 1 : 0;
    }
    return static_cast<double>(hits) / static_cast<double>(rows);
  }
  bool same(std::int64_t a, std::int64_t b) const {
    return pictures[static_cast<std::size_t>(a)] == pictures[static_cast<std::size_t>(b)];
  }
};

Recall measure(Rows& rows, std::int64_t max_rows, int threads) {
  const std::unique_ptr<GemmCache> products = GemmCache::make(threads);
  std::vector<float> scratch(Retrieval::bytes(max_rows) / sizeof(float));
  rows.candidates.resize(static_cast<std::size_t>(align_up<std::int64_t>(max_rows, 16) * rows.width));
  Retrieval retrieval(max_rows, rows.width, static_cast<std::byte*>(static_cast<void*>(scratch.data())), *products);
  Threads pool(threads, false);
  return retrieval.measure(pool, rows.queries.data(), rows.candidates.data(), rows.pictures.data(), rows.rows);
}

TEST(Retrieval, IsWhatTheDefinitionSaysForAnyNumberOfRows) {
  Seeded random;
  for (const std::int64_t count : {1, 2, 15, 16, 17, 100, 256, 257, 300}) {
    Rows rows(random, count, 8, static_cast<int>(count / 2 + 1));
    const Recall recall = measure(rows, count + 5, 2);
    EXPECT_DOUBLE_EQ(recall.at_1, rows.recall(1)) << count;
    EXPECT_DOUBLE_EQ(recall.at_5, rows.recall(5)) << count;
    EXPECT_DOUBLE_EQ(recall.at_10, rows.recall(10)) << count;
  }
}

TEST(Retrieval, CountsTiesAgainstTheQuery) {
  Seeded random;
  Rows rows(random, 4, 8, 4);
  rows.pictures = {0, 1, 2, 3};
  std::fill(rows.queries.begin(), rows.queries.end(), 1.0f);
  std::fill(rows.candidates.begin(), rows.candidates.end(), 1.0f);
  const Recall recall = measure(rows, 4, 1);
  EXPECT_EQ(recall.at_1, 0.0);
  EXPECT_EQ(recall.at_5, 1.0);
}

double by_pairs(const std::vector<float>& scores, const std::vector<std::int32_t>& labels) {
  double wins = 0.0, pairs = 0.0;
  for (std::size_t p = 0; p < scores.size(); ++p) {
    for (std::size_t n = 0; n < scores.size(); ++n) {
      if (labels[p] != 1 || labels[n] != 0) continue;
      wins += scores[p] > scores[n] ? 1.0 : scores[p] < scores[n] ? 0.0 : 0.5;
      pairs += 1.0;
    }
  }
  return pairs > 0.0 ? wins / pairs : 0.5;
}

TEST(AreaUnderCurve, IsTheShareOfRightlyOrderedPairs) {
  Seeded random;
  for (int count = 0; count < 60; ++count) {
    std::vector<float> scores;
    std::vector<std::int32_t> labels, order(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      scores.push_back(static_cast<float>(random.integer(-3, 3)));
      labels.push_back(static_cast<std::int32_t>(random.integer(0, 1)));
    }
    EXPECT_NEAR(area_under_curve(scores.data(), labels.data(), order.data(), count), by_pairs(scores, labels), 1e-12);
  }
}

TEST(AreaUnderCurve, SurvivesScoresThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> scores(200, nan);
  std::vector<std::int32_t> labels(200), order(200);
  for (std::size_t i = 0; i < 200; i += 3) scores[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < 200; i += 2) labels[i] = 1;
  EXPECT_TRUE(std::isfinite(area_under_curve(scores.data(), labels.data(), order.data(), 200)));
}

}  // namespace
}  // namespace bascule::test
