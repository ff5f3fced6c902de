// SPDX-License-Identifier: Apache-2.0
#include "src/loader/masking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_masking {
namespace {

using test::Seeded;
using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

const Ids kSpecial = {0, 1, 2, 3, 999};

MaskingSettings masking() {
  MaskingSettings settings;
  settings.seed = 42;
  settings.mask_id = 999;
  settings.vocabulary_size = 1000;
  settings.special_ids = kSpecial;
  return settings;
}

// <s>, `words` tokens from 10 on, </s>.
Ids caption(std::int64_t words) {
  Ids ids = {0};
  for (std::int64_t i = 0; i < words; ++i) ids.push_back(static_cast<std::int32_t>(10 + i));
  ids.push_back(2);
  return ids;
}

TEST(MaskedCount, IsRoundedHalfUpAtLeastOneAndNeverFalls) {
  EXPECT_EQ(masked_count(0, 0.15), 0);
  EXPECT_EQ(masked_count(1, 0.15), 1);
  EXPECT_EQ(masked_count(9, 0.15), 1);
  EXPECT_EQ(masked_count(10, 0.15), 2);  // 1.5
  EXPECT_EQ(masked_count(100, 0.15), 15);
  EXPECT_EQ(masked_count(7, 1.0), 7);
  for (std::int64_t n = 1; n < 1000; ++n) EXPECT_LE(masked_count(n - 1, 0.15), masked_count(n, 0.15));
}

TEST(CountedSelection, OfACorpusIsTheOriginalRule) {
  MaskingSettings settings;
  settings.counts_special = true;
  const auto count = [&](std::int64_t tokens) { return counted_selection(tokens, tokens - 3, settings); };
  EXPECT_EQ(count(5), 1);
  EXPECT_EQ(count(10), 2);  // Python's round(1.5)
  EXPECT_EQ(count(30), 4);  // and round(4.5)
  EXPECT_EQ(count(64), 10);
  EXPECT_EQ(count(128), 19);
  EXPECT_EQ(counted_selection(64, 7, settings), 7);  // no more than there are
  settings.most = 20;
  EXPECT_EQ(count(128), 19);
  EXPECT_EQ(count(512), 20);
  settings.counts_special = false;
  EXPECT_EQ(counted_selection(512, 509, settings), 20);
}

// 20,000 samples of 20 words. Bounds are 5 standard deviations of a binomial.
TEST(MaskTokens, OfBernoulliTakesEachTokenIndependently) {
  constexpr int kRows = 20000, kWords = 20;
  MaskingSettings settings = masking();
  settings.rule = Masking::kBernoulli;
  settings.most = 1;  // of the other rule
  std::vector<int> at_position(kWords + 2, 0), of_count(kWords + 1, 0);
  int both = 0;
  for (int row = 0; row < kRows; ++row) {
    Ids ids = caption(kWords), labels(ids.size());
    const std::int64_t selected = mask_tokens(ids, labels, settings, 1, row);
    ++of_count[static_cast<std::size_t>(selected)];
    for (std::size_t i = 0; i < ids.size(); ++i) at_position[i] += labels[i] != kUnlabelled ? 1 : 0;
    both += labels[7] != kUnlabelled && labels[8] != kUnlabelled ? 1 : 0;
  }
  const auto near = [](int seen, double chance) {
    return std::fabs(seen - kRows * chance) < 5.0 * std::sqrt(kRows * chance * (1.0 - chance));
  };
  EXPECT_EQ(at_position.front() + at_position.back(), 0);
  for (std::size_t i = 1; i <= kWords; ++i) EXPECT_TRUE(near(at_position[i], 0.15)) << i;
  EXPECT_TRUE(near(both, 0.15 * 0.15)) << both;
  EXPECT_TRUE(near(of_count[0], std::pow(0.85, kWords))) << of_count[0];
}

// The chance of more than the bound, as a sum of binomial terms.
TEST(SelectionBound, OfBernoulliIsExceededWithAChanceBelowTwoToMinus64) {
  MaskingSettings settings;
  settings.rule = Masking::kBernoulli;
  for (const double chance : {0.01, 0.15, 0.5, 1.0}) {
    settings.probability = chance;
    for (const std::int64_t tokens : {1, 8, 64, 510, 32 * 510}) {
      const std::int64_t bound = selection_bound(1, tokens, tokens, settings);
      const double n = static_cast<double>(tokens);
      double above = 0.0;
      for (std::int64_t k = bound + 1; k <= tokens; ++k) {
        const double d = static_cast<double>(k);
        above += std::exp(std::lgamma(n + 1) - std::lgamma(d + 1) - std::lgamma(n - d + 1) + d * std::log(chance) +
                          (n - d) * std::log1p(-chance));
      }
      EXPECT_LT(above, 0x1p-64) << chance << " of " << tokens;
      EXPECT_LE(static_cast<double>(bound), n * chance + 11.0 * std::sqrt(n * chance * (1.0 - chance)) + 35.0);
    }
  }
}

TEST(MaskTokens, SelectsTheCountOfOrdinaryTokensAndLabelsThem) {
  for (std::int64_t words = 0; words < 60; ++words) {
    const Ids original = caption(words);
    Ids ids = original;
    Ids labels(ids.size(), 5);
    const std::int64_t selected = mask_tokens(ids, labels, masking(), 0, words);
    EXPECT_EQ(selected, masked_count(words, 0.15));
    std::int64_t labelled = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (labels[i] == kUnlabelled) {
        EXPECT_EQ(ids[i], original[i]);
      } else {
        EXPECT_EQ(labels[i], original[i]);
        EXPECT_GE(original[i], 10);
        ++labelled;
      }
    }
    EXPECT_EQ(labelled, selected);
  }
}

TEST(MaskTokens, DependsOnSeedEpochAndRowAlone) {
  const Ids original = caption(40);
  const auto masked = [&](std::uint64_t seed, std::int64_t epoch, std::int64_t row) {
    MaskingSettings settings = masking();
    settings.seed = seed;
    Ids ids = original;
    Ids labels(ids.size());
    mask_tokens(ids, labels, settings, epoch, row);
    labels.insert(labels.end(), ids.begin(), ids.end());
    return labels;
  };
  EXPECT_EQ(masked(1, 2, 3), masked(1, 2, 3));
  EXPECT_NE(masked(1, 2, 3), masked(2, 2, 3));
  EXPECT_NE(masked(1, 2, 3), masked(1, 3, 3));
  EXPECT_NE(masked(1, 2, 3), masked(1, 2, 4));
  EXPECT_NE(masked(1, 2, 3), masked(1, 2, 3 + (std::int64_t{1} << 32)));
}

// 20,000 samples of 20 words select 3 words each: 60,000 selections. Bounds are 5 standard deviations of a binomial.
TEST(MaskTokens, TreatsAllPositionsAlikeAndSplitsEightyTenTen) {
  constexpr int kRows = 20000;
  constexpr int kWords = 20;
  std::vector<int> at_position(kWords + 2, 0);
  int masked = 0, random = 0, kept = 0;
  for (int row = 0; row < kRows; ++row) {
    const Ids original = caption(kWords);
    Ids ids = original;
    Ids labels(ids.size());
    mask_tokens(ids, labels, masking(), 1, row);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (labels[i] == kUnlabelled) continue;
      ++at_position[i];
      masked += ids[i] == 999 ? 1 : 0;
      kept += ids[i] == original[i] ? 1 : 0;
      random += ids[i] != 999 && ids[i] != original[i] ? 1 : 0;
      EXPECT_TRUE(ids[i] == 999 || (ids[i] > 3 && ids[i] < 999));
    }
  }
  const auto near = [](int seen, double trials, double chance) {
    return std::fabs(seen - trials * chance) < 5.0 * std::sqrt(trials * chance * (1.0 - chance));
  };
  for (std::size_t i = 1; i <= kWords; ++i) EXPECT_TRUE(near(at_position[i], kRows, 3.0 / kWords)) << i;
  const double selections = 3.0 * kRows;
  EXPECT_TRUE(near(masked, selections, 0.8)) << masked;
  EXPECT_TRUE(near(random, selections, 0.1 * 994 / 995)) << random;  // 1 of 995 random tokens is the old one
  EXPECT_TRUE(near(kept, selections, 0.1 + 0.1 / 995)) << kept;
}

// A manifest whose row i shows picture pictures[i] and says "caption i".
Manifest manifest_of(const std::vector<int>& pictures, const TemporaryFolder& folder) {
  std::string text;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    text +=
        R"({"image": ")" + std::to_string(pictures[i]) + R"(.jpg", "caption": "caption )" + std::to_string(i) + "\"}\n";
  }
  return Manifest::load(folder.write("rows.jsonl", text), ManifestColumns());
}

TEST(MatchingSample, ExchangesTheWantedFractionForCaptionsOfOtherPictures) {
  TemporaryFolder folder;
  std::vector<int> pictures;
  for (int i = 0; i < 6000; ++i) pictures.push_back(i / 3);
  const Manifest manifest = manifest_of(pictures, folder);
  for (const double fraction : {0.0, 0.25, 0.5, 1.0}) {
    const NegativeSettings settings{7, fraction};
    int negatives = 0;
    for (std::int64_t row = 0; row < manifest.rows(); ++row) {
      const MatchingSample sample = matching_sample(manifest, settings, 2, row);
      if (sample.label == 1) {
        EXPECT_EQ(sample.caption_row, row);
        continue;
      }
      ++negatives;
      EXPECT_NE(manifest.image_id(sample.caption_row), manifest.image_id(row));
      EXPECT_EQ(sample.caption_row, matching_sample(manifest, settings, 2, row).caption_row);
    }
    const double spread = 5.0 * std::sqrt(6000.0 * fraction * (1.0 - fraction));
    EXPECT_LE(std::fabs(negatives - 6000.0 * fraction), spread);
  }
}

// Row 0 shows the picture of half the rows; each of the 10 others is expected in 2,000 of 20,000 epochs.
TEST(MatchingSample, ChoosesAmongAllOtherPicturesAlike) {
  TemporaryFolder folder;
  const std::vector<int> pictures = {1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 1, 1, 1, 1};
  const Manifest manifest = manifest_of(pictures, folder);
  std::vector<int> chosen(pictures.size(), 0);
  for (std::int64_t epoch = 0; epoch < 20000; ++epoch) {
    ++chosen[static_cast<std::size_t>(matching_sample(manifest, NegativeSettings{7, 1.0}, epoch, 0).caption_row)];
  }
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const double expected = pictures[i] == 1 ? 0.0 : 2000.0;
    EXPECT_LE(std::fabs(chosen[i] - expected), 5.0 * std::sqrt(expected * 0.9)) << i;
  }
}

TEST(MatchingSample, FindsTheOnlyOtherPictureHoweverRare) {
  TemporaryFolder folder;
  std::vector<int> pictures(5000, 1);
  pictures[77] = 2;
  const Manifest manifest = manifest_of(pictures, folder);
  for (std::int64_t row = 0; row < manifest.rows(); row += 100) {
    EXPECT_EQ(matching_sample(manifest, NegativeSettings{7, 1.0}, 0, row).caption_row, 77);
  }
}

TEST(MatchingSample, IsRefusedBeforehandWhereAllRowsShowOnePicture) {
  TemporaryFolder folder;
  const Manifest manifest = manifest_of({4, 4, 4}, folder);
  EXPECT_NO_THROW(check_negatives(manifest, NegativeSettings{7, 0.0}));
  try {
    check_negatives(manifest, NegativeSettings{7, 0.5});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(error.problem().find("all 3 rows show the same picture"), std::string::npos);
  }
  EXPECT_NO_THROW(check_negatives(manifest_of({4, 5}, folder), NegativeSettings{7, 0.5}));
}

}  // namespace
}  // namespace bascule::test_masking
