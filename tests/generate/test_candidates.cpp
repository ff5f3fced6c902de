// SPDX-License-Identifier: Apache-2.0
#include "src/generate/token_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "tests/support/guarded_buffer.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

using Scored = std::vector<std::pair<std::int32_t, float>>;  // tokens and their scores

Scored best(std::int64_t most, const RowLogits& row, const std::vector<std::int32_t>& banned) {
  GuardedBuffer<Candidate> found(static_cast<std::size_t>(most));
  const std::int64_t count = best_tokens(found.data(), most, row, banned);
  Scored scored;
  for (std::int64_t i = 0; i < count; ++i) scored.emplace_back(found.data()[i].token, found.data()[i].score);
  return scored;
}

RowLogits row_of(const std::vector<float>& logits) {
  RowLogits row;
  row.logits = logits.data();
  row.vocabulary_size = static_cast<std::int64_t>(logits.size());
  return row;
}

// All tokens, sorted.
Scored best_by_sorting(std::int64_t most, const RowLogits& row, const std::vector<std::int32_t>& banned) {
  Scored scored;
  for (std::int32_t token = 0; token < row.vocabulary_size; ++token) {
    const bool is_banned = std::count(banned.begin(), banned.end(), token) > 0;
    scored.emplace_back(token, is_banned ? kImpossible : ((row.logits[token] - row.top) - row.log_sum) + row.running);
  }
  std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  scored.resize(std::min(scored.size(), static_cast<std::size_t>(most)));
  return scored;
}

TEST(Candidates, BestTokensAreThoseOfASort) {
  Seeded random;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(static_cast<std::size_t>(random.integer(1, round % 10 == 0 ? 5000 : 50)));
    const std::int64_t levels = random.chance(0.5) ? random.integer(1, 6) : 1 << 20;
    for (float& logit : logits) logit = static_cast<float>(random.integer(-levels, levels)) / 16.0f;
    if (random.chance(0.2)) logits[random.bits() % logits.size()] = kImpossible;
    std::vector<std::int32_t> banned(static_cast<std::size_t>(random.integer(0, 20)));
    for (std::int32_t& token : banned) token = static_cast<std::int32_t>(random.bits() % logits.size());
    RowLogits row = row_of(logits);
    row.top = *std::max_element(logits.begin(), logits.end());
    if (row.top == kImpossible) continue;
    row.log_sum = static_cast<float>(random.uniform(0.0, 5.0));
    row.running = random.chance(0.2) ? -1e9f : static_cast<float>(random.uniform(-50.0, 0.0));
    const std::int64_t most = random.integer(1, 30);
    EXPECT_EQ(best(most, row, banned), best_by_sorting(most, row, banned));
  }
}

TEST(Candidates, OfEqualScoresTheLowestTokenIsFirst) {
  const std::vector<float> logits = {1, 2, 2, 1, 2};
  EXPECT_EQ(best(4, row_of(logits), {}), (Scored{{1, 2.0f}, {2, 2.0f}, {4, 2.0f}, {0, 1.0f}}));
}

TEST(Candidates, ScoresThatRoundToTheSameAreEqual) {
  const std::vector<float> logits = {1, 2, 3};
  RowLogits row = row_of(logits);
  row.running = -1e9f;
  EXPECT_EQ(best(2, row, {}), (Scored{{0, -1e9f}, {1, -1e9f}}));
}

TEST(Candidates, BannedTokensAndWhatIsNoNumberComeLast) {
  const std::vector<float> logits = {5, std::numeric_limits<float>::quiet_NaN(), 4, 3};
  EXPECT_EQ(best(3, row_of(logits), {0, 2}), (Scored{{3, 3.0f}, {0, kImpossible}, {1, kImpossible}}));
  EXPECT_EQ(best(9, row_of(logits), {3, 0, 2}),
            (Scored{{0, kImpossible}, {1, kImpossible}, {2, kImpossible}, {3, kImpossible}}));
}

TEST(Candidates, OfEqualScoresTheLowestBeamIsFirst) {
  const std::vector<Candidate> low = {{-1.0f, 7}, {-3.0f, 1}}, high = {{-1.0f, 2}, {-1.0f, 5}, {-2.0f, 0}};
  std::vector<BeamList> lists = {{low.data(), 2, 0}, {high.data(), 3, 0}, {low.data(), 2, 0}};
  GuardedBuffer<BeamCandidate> merged(7);
  merge_beams(merged.data(), 7, lists);
  std::vector<std::pair<std::int32_t, std::int32_t>> order;
  for (const BeamCandidate& candidate : merged) order.emplace_back(candidate.beam, candidate.token);
  EXPECT_EQ(order, (std::vector<std::pair<std::int32_t, std::int32_t>>{
                       {0, 7}, {1, 2}, {1, 5}, {2, 7}, {1, 0}, {0, 1}, {2, 1}}));
}

}  // namespace
}  // namespace bascule::test
