// SPDX-License-Identifier: Apache-2.0
// Rows of several texts that a model embeds each by itself: they follow each other as one text of a batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/loader/two_texts.h"

namespace bascule::test_texts_in_a_row {
namespace {

using test::Reads;
using test::text_fields;
using test::tokens_of_text;
using test::TwoTexts;

constexpr std::int64_t kTexts = 3, kLength = 8;

class TextsInARow : public TwoTexts {
 protected:
  // Anchors of 1 to 3 words, positives of 1 to 9, of which some are cut, and negatives of one word or none.
  Manifest manifest() {
    std::string lines = "negative,anchor,positive\n";
    for (int row = 0; row < 14; ++row)
      lines += (row % 4 == 1 ? "" : letters(1, row)) + "," + letters(1 + row % 3, row) + "," +
               letters(1 + row % 9, 3 * row) + "\n";
    return Manifest::load(folder_.write("rows.csv", lines),
                          ManifestColumns{"", "anchor", "", 2, "positive", {"negative"}});
  }

  static LoaderSettings settings(const Manifest& manifest) {
    LoaderSettings settings = test::emoji_settings(manifest);
    settings.fields = text_fields(0, Reads::kAttended);
    for (Field& field : settings.fields) {
      if (field.source == FieldSource::kTextOffsets) field.rows = {kSamples, kTexts, 1};
    }
    settings.fields.push_back({"sample_keys", DType::kInt64, rows_per_sample(kTexts), 1, FieldSource::kSampleKeys});
    settings.takes_texts_in_a_row = true;
    settings.texts[0].max_length = kLength;
    settings.text_columns = {"anchor", "positive", "negative"};
    settings.prompts = {"", "", "a b"};
    settings.streams[0].batch_per_rank = 4;
    return settings;
  }
};

TEST_F(TextsInARow, FollowEachOtherWithOffsetsAndKeysOfTheirOwn) {
  const Manifest rows = manifest();
  for (const std::int64_t workers : {0, 1, 3}) {
    LoaderSettings settings = this->settings(rows);
    settings.workers = workers;
    int samples = 0, cut = 0;
    for_each_batch(settings, [&](const Batch& batch) {
      std::vector<std::int32_t> ids, offsets = {0}, positions;
      std::vector<std::uint64_t> row_keys, sample_keys;
      for (std::int64_t b = 0; b < batch.counts.samples(); ++b) {
        const std::uint64_t number = static_cast<std::uint64_t>(batch.first_position + b);
        std::uint64_t in_sample = 0;
        for (std::size_t i = 0; i < kTexts; ++i) {
          const std::string text = settings.prompts[i] + std::string(rows.text(batch.rows[b], i));
          const std::vector<std::int32_t> own = test::emoji_tokenizer().encode(text, kLength);
          cut += test::emoji_tokenizer().encode(text).size() > kLength ? 1 : 0;
          for (std::size_t t = 0; t < own.size(); ++t) {
            ids.push_back(own[t]);
            positions.push_back(static_cast<std::int32_t>(t) + 2);
            row_keys.push_back(text_row_key(number, 0, in_sample++));
          }
          offsets.push_back(static_cast<std::int32_t>(ids.size()));
          sample_keys.push_back(row_key(number * kTexts + i, 0));
        }
        ++samples;
      }
      ASSERT_EQ(batch.counts[tokens_of_text(0)], static_cast<std::int64_t>(ids.size()));
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "0.token_ids"), ids);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "0.text_offsets"), offsets);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "0.position_ids"), positions);
      ASSERT_EQ(values<std::uint64_t>(batch, settings.fields, "0.text_row_keys"), row_keys);
      ASSERT_EQ(values<std::uint64_t>(batch, settings.fields, "sample_keys"), sample_keys);
    });
    EXPECT_EQ(samples, 14);
    EXPECT_GT(cut, 1);
    EXPECT_EQ(plan_loader(settings).streams[0].texts[0].cut, cut);
  }
}

// A batch has room for the longest text of each column, not for as many of the longest of all.
TEST_F(TextsInARow, ArePlannedByTheLongestOfEachColumn) {
  const Manifest rows = manifest();
  const StreamPlan plan = plan_loader(settings(rows)).streams[0];
  const auto longest = [&](std::size_t i) { return plan.texts[0].in_a_row[i].longest; };
  std::int64_t expected[kTexts] = {};
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    for (std::size_t i = 0; i < kTexts; ++i) {
      const std::string text = (i == 2 ? "a b" : "") + std::string(rows.text(row, i));
      const auto tokens = static_cast<std::int64_t>(test::emoji_tokenizer().encode(text, kLength).size());
      expected[i] = std::max(expected[i], tokens);
    }
  }
  for (std::size_t i = 0; i < kTexts; ++i) EXPECT_EQ(longest(i), expected[i]) << i;
  EXPECT_LT(longest(0), kLength);
  EXPECT_EQ(longest(1), kLength);
  EXPECT_EQ(plan.texts[0].longest, kLength);
  EXPECT_EQ(plan.texts[0].of_sample(), longest(0) + longest(1) + longest(2));
  EXPECT_EQ(plan.bounds[tokens_of_text(0)], 4 * plan.texts[0].of_sample());
  EXPECT_EQ(plan.bounds.longest[tokens_of_text(0)], kLength);
}

TEST_F(TextsInARow, EndTheStreamWhereOneIsLongerThanPlanned) {
  const Manifest rows = manifest();
  const LoaderSettings settings = this->settings(rows);
  LoaderPlan plan = plan_loader(settings);
  --plan.streams[0].texts[0].in_a_row[2].longest;
  test::LoaderRun run(settings, plan);
  run.stream().start(0, 1);
  const Batch* batch = nullptr;
  const Status status = run.stream().next(&batch);
  EXPECT_EQ(status.code, StatusCode::kLongText);
  EXPECT_EQ(status.detail[1], plan.streams[0].texts[0].in_a_row[2].longest);
}

TEST_F(TextsInARow, HaveRandomKeysForSoManyTokens) {
  const Manifest rows = manifest();
  LoaderSettings settings = this->settings(rows);
  settings.texts[0].max_positions = 0;
  settings.texts[0].max_length = 30000;
  const std::string refused = refusal(settings, ErrorKind::kSettings);
  EXPECT_NE(refused.find("the 3 texts of a row may have 90000 tokens together"), std::string::npos) << refused;
}

}  // namespace
}  // namespace bascule::test_texts_in_a_row
