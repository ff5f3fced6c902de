// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/doctor/data.h"

namespace bascule {
namespace {

// Ids 1 and 2 are special, 3 is unknown.
class Ids final : public Tokenizer {
 public:
  Ids() : Tokenizer(facts()) {}
  std::size_t scratch_bytes(std::size_t) const noexcept override { return 0; }

 private:
  static TokenizerFacts facts() {
    TokenizerFacts facts;
    facts.before = {1};
    facts.after = {2};
    facts.unknown_id = 3;
    facts.vocabulary_size = 100;
    return facts;
  }
  Status tokenize(std::string_view, TokenOutput&, Span<std::byte>) const noexcept override { return ok_status(); }
};

class Counted : public ::testing::Test {
 protected:
  TextCounter::Text add(std::vector<std::int32_t> ids) {
    return TextCounter(tokenizer_, 2, &figures_).add(Span<const std::int32_t>(ids.data(), ids.size()));
  }
  Ids tokenizer_;
  TextFigures figures_;
};

TEST_F(Counted, CutTextsLoseWhatIsBehindTheLimit) {
  figures_.limit = 4;
  EXPECT_FALSE(add({1, 10, 11, 2}).is_cut);
  EXPECT_TRUE(add({1, 10, 11, 12, 13, 14, 2}).is_cut);
  EXPECT_EQ(figures_.cut_texts, 1);
  EXPECT_EQ(figures_.cut_tokens, 3);
  EXPECT_EQ(figures_.tokens, 11);
  EXPECT_EQ(figures_.read_tokens, 8);
  EXPECT_EQ(figures_.longest, 7);
}

TEST_F(Counted, WithoutALimitNothingIsCut) {
  EXPECT_FALSE(add(std::vector<std::int32_t>(500, 10)).is_cut);
  EXPECT_EQ(figures_.read_tokens, 500);
}

TEST_F(Counted, TextsOfUnknownTokensAloneAreToldApart) {
  EXPECT_TRUE(add({1, 3, 3, 2}).is_all_unknown);
  EXPECT_FALSE(add({1, 3, 10, 2}).is_all_unknown);
  EXPECT_TRUE(add({1, 2}).is_empty);
  EXPECT_EQ(figures_.unknown_tokens, 3);
  EXPECT_EQ(figures_.texts_with_unknown, 2);
  EXPECT_EQ(figures_.texts_all_unknown, 1);
  EXPECT_EQ(figures_.empty_texts, 1);
}

TEST_F(Counted, QuantilesAreLengthsThatAreThere) {
  for (std::size_t length = 3; length < 103; ++length) add(std::vector<std::int32_t>(length, 10));
  EXPECT_EQ(figures_.quantile(0.5), 52);
  EXPECT_EQ(figures_.quantile(0.99), 101);
  EXPECT_EQ(figures_.quantile(1.0), 102);
  EXPECT_EQ(TextFigures().quantile(0.5), 0);
}

TEST_F(Counted, BarsCoverEveryTextOnce) {
  for (const std::size_t longest : {3U, 12U, 13U, 120U, 511U, 70'000U}) {
    figures_ = {};
    add(std::vector<std::int32_t>(3, 10));
    add(std::vector<std::int32_t>(longest, 10));
    const std::vector<LengthBar> bars = length_bars(figures_);
    ASSERT_LE(bars.size(), 12U) << longest;
    std::int64_t texts = 0;
    for (const LengthBar& bar : bars) texts += bar.texts;
    for (std::size_t i = 1; i < bars.size(); ++i) EXPECT_EQ(bars[i].from, bars[i - 1].to + 1);
    EXPECT_EQ(texts, 2) << longest;
    EXPECT_LE(bars.front().from, 3);
    EXPECT_GE(bars.back().to, static_cast<std::int64_t>(longest));
  }
}

}  // namespace
}  // namespace bascule
