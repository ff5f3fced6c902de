// SPDX-License-Identifier: Apache-2.0
// Samples of two texts, a source and a target, each with its own length, positions, masks and keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/index/open_manifest.h"
#include "src/loader/label_count.h"
#include "src/loader/loader_parts.h"
#include "src/loader/masking.h"
#include "tests/loader/two_texts.h"

namespace bascule::test_two_texts {
namespace {

using test::kSourceLength;
using test::kTargetLength;
using test::LoaderRun;
using test::Reads;
using test::text_fields;
using test::tokens_of_text;
using test::TwoTexts;

TEST_F(TwoTexts, AreTokenisedEachByItselfAndCutAtLimitsOfTheirOwn) {
  const Manifest pairs = manifest(rows());
  for (const std::int64_t workers : {0, 1, 3}) {
    LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kAttended);
    settings.workers = workers;
    std::set<std::int64_t> seen;
    int cut[2] = {}, longer = 0, shortest = 0;
    for_each_batch(settings, [&](const Batch& batch) {
      std::vector<std::int32_t> expected[2], offsets[2] = {{0}, {0}}, positions[2];
      for (std::int64_t b = 0; b < batch.counts.samples(); ++b) {
        const ManifestRow row = pairs.row(batch.rows[b]);
        ASSERT_EQ(batch.rows_of_texts[b], batch.rows[b]);
        seen.insert(batch.rows[b]);
        const std::vector<std::int32_t> ids[2] = {test::emoji_tokenizer().encode(row.text, kSourceLength),
                                                  test::emoji_tokenizer().encode(*row.second_text, kTargetLength)};
        longer += ids[1].size() > ids[0].size() ? 1 : 0;
        shortest += ids[1].size() == 3 ? 1 : 0;
        for (int text = 0; text < 2; ++text) {
          expected[text].insert(expected[text].end(), ids[text].begin(), ids[text].end());
          offsets[text].push_back(static_cast<std::int32_t>(expected[text].size()));
          cut[text] += static_cast<std::int64_t>(ids[text].size()) == settings.texts[text].max_length ? 1 : 0;
          for (std::size_t t = 0; t < ids[text].size(); ++t)
            positions[text].push_back(static_cast<std::int32_t>(t) + (text == 0 ? 2 : 0));
        }
      }
      for (int text = 0; text < 2; ++text) {
        const std::string name = std::to_string(text) + ".";
        ASSERT_EQ(batch.counts[tokens_of_text(text)], static_cast<std::int64_t>(expected[text].size()));
        ASSERT_EQ(values<std::int32_t>(batch, settings.fields, name + "token_ids"), expected[text]);
        ASSERT_EQ(values<std::int32_t>(batch, settings.fields, name + "text_offsets"), offsets[text]);
        ASSERT_EQ(values<std::int32_t>(batch, settings.fields, name + "position_ids"), positions[text]);
        ASSERT_EQ(values<std::int32_t>(batch, settings.fields, name + "token_types"),
                  std::vector<std::int32_t>(expected[text].size(), 0));
      }
    });
    EXPECT_EQ(seen.size(), 12u);
    EXPECT_GT(cut[0], 1);
    EXPECT_GT(cut[1], 1);
    EXPECT_GT(longer, 1);
    EXPECT_EQ(shortest, 1);
  }
}

TEST_F(TwoTexts, HaveBatchesThatDoNotDependOnWorkersAndSlots) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs, Reads::kPredicted, Reads::kAttended);
  settings.workers = 0;
  const std::vector<std::uint64_t> expected = test::fingerprints(settings, 0, 6);
  settings.workers = 3;
  settings.streams[0].ring_slots = 4;
  EXPECT_EQ(test::fingerprints(settings, 0, 6), expected);
}

TEST_F(TwoTexts, AreMaskedByDrawsOfTheirOwn) {
  std::string lines = "source,target\n";
  for (int row = 0; row < 40; ++row) lines += letters(7, row) + "," + letters(7, row) + "\n";
  const Manifest pairs = manifest(lines);
  MaskingSettings masking[2];
  for (std::uint32_t text = 0; text < 2; ++text) {
    masking[text].seed = 42;
    masking[text].text = text;
    masking[text].mask_id = test::emoji_tokenizer().mask_id();
    masking[text].vocabulary_size = test::emoji_tokenizer().vocabulary_size();
    masking[text].special_ids = test::emoji_tokenizer().special_ids();
  }
  int same = 0;
  // Either text is masked alone, with the other beside it: 16 fields have no room for all.
  for (int text = 0; text < 2; ++text) {
    LoaderSettings settings = text == 0 ? this->settings(pairs, Reads::kPredicted, Reads::kAttended)
                                        : this->settings(pairs, Reads::kAttended, Reads::kPredicted);
    settings.texts[text].max_length = kSourceLength;
    for_each_batch(settings, [&](const Batch& batch) {
      std::vector<std::int32_t> expected, masked_rows, masked_labels;
      for (std::int64_t b = 0; b < batch.counts.samples(); ++b) {
        std::vector<std::int32_t> ids = test::emoji_tokenizer().encode(pairs.row(batch.rows[b]).text, kSourceLength);
        std::vector<std::int32_t> others = ids, labels(ids.size()), labels_of_others(ids.size());
        mask_tokens(ids, labels, masking[text], 0, batch.rows[b]);
        mask_tokens(others, labels_of_others, masking[1 - text], 0, batch.rows[b]);
        same += labels == labels_of_others ? 1 : 0;
        for (std::size_t t = 0; t < ids.size(); ++t) {
          if (labels[t] == kUnlabelled) continue;
          masked_rows.push_back(static_cast<std::int32_t>(expected.size() + t));
          masked_labels.push_back(labels[t]);
        }
        expected.insert(expected.end(), ids.begin(), ids.end());
      }
      const std::string name = std::to_string(text) + ".";
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, name + "token_ids"), expected);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, name + "masked_rows"), masked_rows);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, name + "masked_labels"), masked_labels);
    });
  }
  EXPECT_LT(same, 2 * 40 / 3) << "one of seven tokens is masked: one draw of seven is the same by chance";
}

TEST_F(TwoTexts, HaveKeysOfWhichNoTwoAreEqual) {
  const Manifest pairs = manifest(rows());
  const LoaderSettings settings = this->settings(pairs);
  for_each_batch(settings, [&](const Batch& batch) {
    std::set<std::uint64_t> different;
    std::size_t keys = 0;
    for (const char* const name : {"0.text_row_keys", "1.text_row_keys"}) {
      for (const std::uint64_t key : values<std::uint64_t>(batch, settings.fields, name)) {
        different.insert(key);
        ++keys;
      }
    }
    ASSERT_EQ(different.size(), keys);
    for (const std::uint64_t key : values<std::uint64_t>(batch, settings.fields, "1.read_row_keys"))
      ASSERT_EQ(different.count(key), 1u) << "a read row has the key that it has among all";
  });
}

TEST_F(TwoTexts, HaveBoundsOfTheirOwn) {
  const Manifest pairs = manifest(rows());
  const LoaderPlan plan = plan_loader(settings(pairs));
  const StreamPlan& stream = plan.streams[0];
  EXPECT_EQ(stream.texts[0].longest, kSourceLength);
  EXPECT_EQ(stream.texts[1].longest, kTargetLength);
  EXPECT_EQ(stream.texts[0].most_masked, 0);
  EXPECT_EQ(stream.texts[1].most_masked, masked_count(kTargetLength - 2, 0.15));
  EXPECT_EQ(plan.longest_text, kSourceLength);
  EXPECT_EQ(stream.bounds[tokens_of_text(0)], 5 * kSourceLength);
  EXPECT_EQ(stream.bounds[tokens_of_text(1)], 5 * kTargetLength);
  EXPECT_EQ(stream.bounds[tokens_of_text(1) + 1], 5 * stream.texts[1].most_masked);
  EXPECT_EQ(stream.bounds[tokens_of_text(1) + 2], 5 + 5 * stream.texts[1].most_masked);
  EXPECT_EQ(stream.bounds.longest[tokens_of_text(0)], kSourceLength);
  EXPECT_EQ(stream.bounds.longest[tokens_of_text(1)], kTargetLength);
  EXPECT_EQ(stream.bounds.longest[tokens_of_text(1) + 2], 1 + stream.texts[1].most_masked);
}

TEST_F(TwoTexts, EndTheStreamWhereTheSecondIsLongerThanPlanned) {
  const Manifest pairs = manifest(rows());
  const LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kAttended);
  LoaderPlan plan = plan_loader(settings);
  StreamPlan& stream = plan.streams[0];
  stream.bounds[tokens_of_text(1)] -= stream.bounds.samples();
  --stream.texts[1].longest;
  LoaderRun run(settings, plan);
  run.stream().start(0, run.stream().batches_per_epoch());
  const Batch* batch = nullptr;
  const Status status = run.stream().next(&batch);
  EXPECT_EQ(status.code, StatusCode::kLongText);
  EXPECT_EQ(status.detail[1], kTargetLength - 1);
}

// What another model has measured of the same file says nothing about either text alone.
TEST_F(TwoTexts, HaveLengthsThatAreKeptApart) {
  const Manifest pairs = manifest(rows());
  LoaderSettings two = settings(pairs);
  two.texts[1].max_length = two.texts[0].max_length;
  LoaderSettings one = two;
  one.fields = text_fields(0, Reads::kAttended);
  one.cache = two.cache = IndexCache{folder_.path() + "/cache", 1};
  EXPECT_EQ(text_lengths(pairs, text_settings(one, 0, one.streams[0]).front(), one.cache).longest, kSourceLength);
  EXPECT_TRUE(has_text_lengths(one, one.streams[0]));
  EXPECT_FALSE(has_text_lengths(two, two.streams[0]));
  text_lengths(pairs, text_settings(two, 0, two.streams[0]).front(), two.cache);
  EXPECT_FALSE(has_text_lengths(two, two.streams[0]));
  text_lengths(pairs, text_settings(two, 1, two.streams[0]).front(), two.cache);
  EXPECT_TRUE(has_text_lengths(two, two.streams[0]));
}

TEST_F(TwoTexts, AreRefusedWhereTheModelLacksOneOfTheirTokens) {
  const Manifest pairs = manifest("source,target\na b,c\n");
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kAttended);
  const std::vector<std::int32_t> ids = test::emoji_tokenizer().encode("a b", kSourceLength);
  const std::int32_t greatest = *std::max_element(ids.begin(), ids.end());
  settings.texts[0].vocabulary_size = greatest + 1;
  EXPECT_EQ(refusal(settings), "no error");
  settings.texts[0].vocabulary_size = greatest;
  EXPECT_EQ(refusal(settings), folder_.path() + "/pairs.csv:2: the tokenizer gives token " + std::to_string(greatest) +
                                   ", the model's vocabulary has " + std::to_string(greatest) +
                                   "; use the tokenizer that belongs to the model");
}

TEST_F(TwoTexts, AreRefusedWhereTheModelHasNoRoomForThem) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs);
  settings.texts[1].max_positions = 5;
  EXPECT_EQ(refusal(settings, ErrorKind::kSettings),
            "data.max_target_length: 6: the model has positions for at most 5 tokens; lower it, or begin "
            "with a model that has more positions");
  settings.texts[1].max_positions = 0;
  settings.texts[1].max_length = 2;
  EXPECT_EQ(refusal(settings, ErrorKind::kSettings),
            "data.max_target_length: 2: a sample has 2 special tokens; set it to 3 or more");
  settings.texts[1].max_length = 3;
  EXPECT_EQ(refusal(settings), "no error");
  settings.texts[1].max_length = 65536 - kSourceLength;
  EXPECT_EQ(refusal(settings), "no error");
  settings.texts[1].max_length += 1;
  EXPECT_EQ(
      refusal(settings, ErrorKind::kSettings),
      "data.max_source_length: a source and its target may have 65537 tokens together; lower it: they may have at "
      "most 65536");
  settings.texts[1].max_length = kTargetLength;
  settings.texts[1].vocabulary_size = 10;
  EXPECT_NE(refusal(settings).find("random replacements of masked tokens"), std::string::npos) << refusal(settings);
}

}  // namespace
}  // namespace bascule::test_two_texts
