// SPDX-License-Identifier: Apache-2.0
// Samples of two texts, a source and a target, each with its own length, positions, masks and keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/index/open_manifest.h"
#include "src/loader/loader_parts.h"
#include "src/loader/masking.h"
#include "src/loader/text_lengths.h"
#include "tests/loader/loader_run.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::LoaderRun;
using test::Reads;
using test::text_fields;
using test::tokens_of_text;

constexpr std::int64_t kSourceLength = 9, kTargetLength = 6;

class TwoTexts : public testing::Test {
 protected:
  // Sources of 1 to 12 letters and targets of 12 to 1: with two special tokens each, some of both are cut, and targets
  // are shorter than their sources, as long, and longer.
  static std::string rows() {
    std::string lines = "source,target\n";
    for (int row = 0; row < 12; ++row) lines += letters(row + 1, row) + "," + letters(12 - row, 5 * row + 3) + "\n";
    return lines;
  }
  // Words of one token each.
  static std::string letters(int count, int from) {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::string(1, static_cast<char>('a' + (from + 7 * i) % 26)) + " ";
    text.pop_back();
    return text;
  }

  Manifest manifest(const std::string& lines) {
    return Manifest::load(folder_.write("pairs.csv", lines), ManifestColumns{"", "source", "", 2, "target"});
  }

  static LoaderSettings settings(const Manifest& manifest, Reads source = Reads::kAttended,
                                 Reads target = Reads::kPredicted) {
    LoaderSettings settings = test::emoji_settings(manifest);
    settings.fields = text_fields(0, source);
    for (const Field& field : text_fields(1, target)) settings.fields.push_back(field);
    settings.texts[0].max_length = kSourceLength;
    settings.texts[1].vocabulary_size = 3000;
    settings.texts[1].max_length = kTargetLength;
    settings.text_columns[0] = "source";
    settings.text_columns[1] = "target";
    settings.streams[0].batch_per_rank = 5;
    return settings;
  }

  template <typename T>
  static std::vector<T> values(const Batch& batch, const Fields& fields, const std::string& name) {
    const int number = field_named(fields, name);
    const T* const first = batch.field<T>(number);
    return std::vector<T>(first, first + fields[static_cast<std::size_t>(number)].elements(batch.counts));
  }

  // Calls check(batch) for every batch of an epoch.
  template <typename Check>
  static void for_each_batch(const LoaderSettings& settings, Check check) {
    LoaderRun run(settings);
    run.stream().start(0, run.stream().batches_per_epoch());
    const Batch* batch = nullptr;
    Status status;
    while ((status = run.stream().next(&batch)).ok()) {
      check(*batch);
      run.stream().release();
    }
    EXPECT_EQ(status.code, StatusCode::kEndOfEpoch);
  }

  static std::string refusal(const LoaderSettings& settings) {
    try {
      plan_loader(settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "planned";
  }

  test::TemporaryFolder folder_;
};

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

TEST_F(TwoTexts, AreReadByADecoderOneTokenBehindWhatItPredicts) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  settings.texts[1].start_id = 17;
  std::int64_t single = 0;
  for_each_batch(settings, [&](const Batch& batch) {
    std::vector<std::int32_t> read, rows, labels;
    for (std::int64_t b = 0; b < batch.counts.samples(); ++b) {
      const std::vector<std::int32_t> ids =
          test::emoji_tokenizer().encode(*pairs.row(batch.rows[b]).second_text, kTargetLength);
      read.push_back(17);
      read.insert(read.end(), ids.begin(), ids.end() - 1);
      labels.insert(labels.end(), ids.begin(), ids.end());
      single += ids.size() == 3 ? 1 : 0;
    }
    for (std::size_t row = 0; row < labels.size(); ++row) rows.push_back(static_cast<std::int32_t>(row));
    ASSERT_EQ(batch.counts[tokens_of_text(1) + 1], static_cast<std::int64_t>(labels.size()));
    ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.token_ids"), labels);
    ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.decoder_ids"), read);
    ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.labelled_rows"), rows);
    ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.token_labels"), labels);
  });
  EXPECT_EQ(single, 1);
  EXPECT_EQ(plan_loader(settings).streams[0].bounds[tokens_of_text(1) + 1], 5 * kTargetLength);
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
}

TEST_F(TwoTexts, EndTheStreamWhereTheSecondIsLongerThanPlanned) {
  const Manifest pairs = manifest(rows());
  const LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kAttended);
  LoaderPlan plan = plan_loader(settings);
  StreamPlan& stream = plan.streams[0];
  stream.bounds[tokens_of_text(1)] -= stream.bounds.samples();
  LoaderRun run(settings, plan);
  run.stream().start(0, run.stream().batches_per_epoch());
  const Batch* batch = nullptr;
  const Status status = run.stream().next(&batch);
  EXPECT_EQ(status.code, StatusCode::kLongText);
  EXPECT_EQ(status.detail[1], kTargetLength - 1);
}

TEST_F(TwoTexts, AreRefusedWhereOneIsEmpty) {
  const std::string where = folder_.path() + "/pairs.csv:3: ";
  const Manifest no_target = manifest("source,target\na b,c\nd e f,\ng,h\n");
  EXPECT_EQ(refusal(settings(no_target)),
            where + "the text of column \"target\" is empty; write a text, or remove the row");
  LoaderSettings one_sequence = settings(no_target);
  one_sequence.fields = text_fields(0, Reads::kAttended);
  EXPECT_EQ(refusal(one_sequence), "planned") << "one text of a pair that is one sequence may be empty";
  const Manifest no_source = manifest("source,target\na b,c\n,d e f\ng,h\n");
  EXPECT_EQ(refusal(settings(no_source)),
            where + "the text of column \"source\" is empty; write a text, or remove the row");
}

// What another model has measured of the same file says nothing about either text alone.
TEST_F(TwoTexts, HaveLengthsThatAreKeptApart) {
  const Manifest pairs = manifest(rows());
  LoaderSettings two = settings(pairs);
  two.texts[1].max_length = two.texts[0].max_length;
  LoaderSettings one = two;
  one.fields = text_fields(0, Reads::kAttended);
  one.cache = two.cache = IndexCache{folder_.path() + "/cache", 1};
  EXPECT_EQ(longest_text(pairs, text_settings(one, 0), one.cache), kSourceLength);
  EXPECT_TRUE(has_text_lengths(one, pairs));
  EXPECT_FALSE(has_text_lengths(two, pairs));
  longest_text(pairs, text_settings(two, 0), two.cache);
  EXPECT_FALSE(has_text_lengths(two, pairs));
  longest_text(pairs, text_settings(two, 1), two.cache);
  EXPECT_TRUE(has_text_lengths(two, pairs));
}

TEST_F(TwoTexts, AreRefusedWhereTheModelLacksOneOfTheirTokens) {
  const Manifest pairs = manifest("source,target\na b,c\n");
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kAttended);
  const std::vector<std::int32_t> ids = test::emoji_tokenizer().encode("a b", kSourceLength);
  const std::int32_t greatest = *std::max_element(ids.begin(), ids.end());
  settings.texts[0].vocabulary_size = greatest + 1;
  EXPECT_EQ(refusal(settings), "planned");
  settings.texts[0].vocabulary_size = greatest;
  EXPECT_EQ(refusal(settings), folder_.path() + "/pairs.csv:2: the tokenizer gives token " + std::to_string(greatest) +
                                   ", the model's vocabulary has " + std::to_string(greatest) +
                                   "; use the tokenizer that belongs to the model");
}

TEST_F(TwoTexts, AreRefusedWhereTheModelHasNoRoomForThem) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs);
  settings.texts[1].max_positions = 5;
  EXPECT_EQ(
      refusal(settings),
      "the length of the model's second text: 6: the model has positions for at most 5 tokens; lower it, or begin "
      "with a model that has more positions");
  settings.texts[1].max_positions = 0;
  settings.texts[1].max_length = 2;
  EXPECT_EQ(refusal(settings), "the length of the model's second text: 2: a sample has 2 special tokens");
  settings.texts[1].max_length = 3;
  EXPECT_EQ(refusal(settings), "planned");
  settings.texts[1].max_length = 65536 - kSourceLength;
  EXPECT_EQ(refusal(settings), "planned");
  settings.texts[1].max_length += 1;
  EXPECT_EQ(refusal(settings),
            "data.max_seq_length: the two texts of a sample may have 65537 tokens together; lower it: they may have at "
            "most 65536");
  settings.texts[1].max_length = kTargetLength;
  settings.texts[1].vocabulary_size = 10;
  EXPECT_NE(refusal(settings).find("random replacements of masked tokens"), std::string::npos) << refusal(settings);
}

}  // namespace
}  // namespace bascule
