// SPDX-License-Identifier: Apache-2.0
#include "src/generate/token_search.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/guarded_buffer.h"

namespace bascule::test {
namespace {

std::set<std::int32_t> banned_after(const std::vector<std::int32_t>& ids, const SearchOptions& options) {
  GuardedBuffer<std::int32_t> banned(ids.size() + options.end_ids.size());
  const std::int64_t count = list_banned_tokens(banned.data(), ids, options);
  return {banned.data(), banned.data() + count};
}

SearchOptions with(std::int64_t ngram, std::int64_t min_length) {
  SearchOptions options;
  options.no_repeat_ngram_size = ngram;
  options.min_length = min_length;
  options.end_ids = {1, 9};
  return options;
}

using Tokens = std::set<std::int32_t>;

TEST(BannedTokens, NothingIsBannedWithoutRules) { EXPECT_EQ(banned_after({0, 5, 5, 5}, with(0, 0)), Tokens()); }

TEST(BannedTokens, ATokenThatWouldCompleteAKnownNgramIsBanned) {
  EXPECT_EQ(banned_after({0, 5, 6, 5}, with(2, 0)), (Tokens{6}));
  EXPECT_EQ(banned_after({0, 5, 6, 5, 7, 5}, with(2, 0)), (Tokens{6, 7}));
  EXPECT_EQ(banned_after({3, 4, 5, 8, 3, 4}, with(3, 0)), (Tokens{5}));
  EXPECT_EQ(banned_after({3, 4, 5, 8, 4, 3, 4, 6, 3, 4}, with(3, 0)), (Tokens{5, 6}));
  EXPECT_EQ(banned_after({3, 4, 5, 8, 5, 4}, with(3, 0)), Tokens());
}

TEST(BannedTokens, TheStartTokenIsPartOfNgrams) { EXPECT_EQ(banned_after({7, 5, 7}, with(2, 0)), (Tokens{5})); }

TEST(BannedTokens, NgramsMayOverlap) { EXPECT_EQ(banned_after({5, 5, 5}, with(3, 0)), (Tokens{5})); }

TEST(BannedTokens, EveryIdIsANgramOfOne) { EXPECT_EQ(banned_after({0, 5, 6}, with(1, 0)), (Tokens{0, 5, 6})); }

TEST(BannedTokens, ARowShorterThanAnNgramHasNone) {
  EXPECT_EQ(banned_after({5, 5}, with(3, 0)), Tokens());
  EXPECT_EQ(banned_after({5}, with(2, 0)), Tokens());
}

TEST(BannedTokens, EveryEndTokenIsBannedUntilTheRowHasItsLeastLength) {
  EXPECT_EQ(banned_after({0, 5}, with(0, 3)), (Tokens{1, 9}));
  EXPECT_EQ(banned_after({0, 5, 6}, with(0, 3)), Tokens());
}

TEST(BannedTokens, RulesAddUp) { EXPECT_EQ(banned_after({0, 5}, with(1, 3)), (Tokens{0, 1, 5, 9})); }

}  // namespace
}  // namespace bascule::test
