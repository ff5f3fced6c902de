// SPDX-License-Identifier: Apache-2.0
#include "src/judge/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

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
