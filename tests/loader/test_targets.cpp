// SPDX-License-Identifier: Apache-2.0
// Targets that a decoder writes: what it reads and predicts, padding, prefixes, empty texts, and limits of a stream.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/index/open_manifest.h"
#include "src/index/row_digests.h"
#include "src/loader/write_text.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/loader/two_texts.h"

namespace bascule::test_targets {
namespace {

using test::kSourceLength;
using test::kTargetLength;
using test::Reads;
using test::tokens_of_text;
using Targets = test::TwoTexts;

TEST_F(Targets, AreReadByADecoderOneTokenBehindWhatItPredicts) {
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

TEST_F(Targets, OfARowThatIsLeftOutHaveNoSayInThePlan) {
  Manifest pairs = manifest("source,target\na b,c\nd e f g, \n,h i j k\n");
  EXPECT_EQ(plan_loader(settings(pairs)).streams[0].texts[0].longest, 6);
  EXPECT_EQ(plan_loader(settings(pairs)).streams[0].texts[1].longest, 6);
  pairs.find_empty_texts();
  EXPECT_EQ(plan_loader(settings(pairs)).streams[0].texts[0].longest, 4);
  EXPECT_EQ(plan_loader(settings(pairs)).streams[0].texts[1].longest, 3);
}

// Words that a loader is to skip are found beforehand, so that none is tokenised to no token of its own.
TEST_F(Targets, AreLeftOutWhereOneIsEmpty) {
  Manifest pairs = manifest("source,target\na b,c\nd e f, \ng,h\n,i\nj,k\n");
  pairs.find_empty_texts();
  EXPECT_EQ(pairs.rows_with_empty_text(), (std::vector<std::int64_t>{1, 3}));
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  settings.on_bad_sample = OnBadSample::kSkip;
  settings.streams[0].shuffled = false;
  settings.streams[0].batch_per_rank = 2;
  std::vector<std::int64_t> rows, places;
  for_each_batch(settings, [&](const Batch& batch) {
    rows.insert(rows.end(), batch.rows, batch.rows + batch.counts.samples());
    places.push_back(batch.positions - batch.counts.samples());
  });
  EXPECT_EQ(rows, (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(places, (std::vector<std::int64_t>{1, 1, 0}));
  settings.streams[0].shuffled = true;
  std::map<std::int64_t, int> times;
  for_each_batch(settings, [&](const Batch& batch) {
    for (std::int64_t b = 0; b < batch.counts.samples(); ++b) ++times[batch.rows[b]];
  });
  EXPECT_EQ(times.size(), 3u) << "each good row, two of them twice or one three times, in place of the empty ones";
  EXPECT_EQ(times[0] + times[2] + times[4], 5);
}

TEST_F(Targets, HaveNumbersOfSkippedRowsThatStayWhenOthersAreTakenOut) {
  Manifest pairs = manifest("source,target\na b,c\nd e f,\ng,h\n,i\nj,k\n");
  pairs.find_empty_texts();
  pairs.take_out({0, 2});
  EXPECT_EQ(pairs.rows_with_empty_text(), (std::vector<std::int64_t>{3, 5}));
  EXPECT_TRUE(pairs.has_empty_text(3));
  EXPECT_FALSE(pairs.has_empty_text(2));
  EXPECT_FALSE(pairs.has_empty_text(1));
  std::vector<BadRow> bad(4);
  ASSERT_EQ(find_bad_rows(pairs, {}, Span<BadRow>(bad)), 2u);
  EXPECT_EQ(bad[0].row, 3);
  EXPECT_EQ(bad[1].row, 5);
}

TEST_F(Targets, ArePaddedWherePaddingCounts) {
  const Manifest pairs = manifest(rows());
  for (const std::int64_t of_stream : {0, 9, 20}) {  // no target has 20 tokens
    LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
    settings.pads_targets = true;
    settings.texts[1].pad_id = 1;
    settings.texts[1].start_id = 3;
    settings.streams[0].max_target_length = of_stream;
    const std::int64_t length = of_stream > 0 ? of_stream : kTargetLength;
    const StreamPlan plan = plan_loader(settings).streams[0];
    EXPECT_EQ(plan.texts[1].longest, length);
    EXPECT_EQ(plan.bounds[tokens_of_text(1)], 5 * length);
    EXPECT_EQ(plan.bounds[tokens_of_text(1) + 1], 5 * length);
    for_each_batch(settings, [&](const Batch& batch) {
      std::vector<std::int32_t> ids, read, offsets = {0};
      for (std::int64_t b = 0; b < batch.counts.samples(); ++b) {
        std::vector<std::int32_t> own = test::emoji_tokenizer().encode(*pairs.row(batch.rows[b]).second_text, length);
        own.resize(static_cast<std::size_t>(length), 1);
        ids.insert(ids.end(), own.begin(), own.end());
        read.push_back(3);
        read.insert(read.end(), own.begin(), own.end() - 1);
        offsets.push_back(static_cast<std::int32_t>(ids.size()));
      }
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.token_ids"), ids);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.token_labels"), ids);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.decoder_ids"), read);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.text_offsets"), offsets);
      ASSERT_EQ(batch.counts[tokens_of_text(1) + 1], static_cast<std::int64_t>(ids.size()));
      const std::vector<std::uint64_t> keys = values<std::uint64_t>(batch, settings.fields, "1.text_row_keys");
      ASSERT_EQ(std::set<std::uint64_t>(keys.begin(), keys.end()).size(), ids.size());
    });
  }
}

TEST_F(Targets, HaveAPrefixBeforeTheSourceAlone) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  settings.source_prefix = "two words ";
  for (const std::int64_t workers : {0, 2}) {
    settings.workers = workers;
    for_each_batch(settings, [&](const Batch& batch) {
      std::vector<std::int32_t> sources, targets;
      for (std::int64_t b = 0; b < batch.counts.samples(); ++b) {
        const ManifestRow row = pairs.row(batch.rows[b]);
        for (const std::int32_t id :
             test::emoji_tokenizer().encode("two words " + std::string(row.text), kSourceLength))
          sources.push_back(id);
        for (const std::int32_t id : test::emoji_tokenizer().encode(*row.second_text, kTargetLength))
          targets.push_back(id);
      }
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "0.token_ids"), sources);
      ASSERT_EQ(values<std::int32_t>(batch, settings.fields, "1.token_ids"), targets);
    });
  }
}

TEST_F(Targets, HaveRoomForASourceBehindItsPrefix) {
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(std::string(BASCULE_TEST_DATA) + "/tokenizer/unigram");
  const Manifest pairs = manifest("source,target\na cat and a tree,a\n");
  TextSettings settings;
  settings.tokenizer = tokenizer.get();
  settings.of_row = 0;
  settings.prefix = "translate: ";
  std::vector<std::byte> scratch(encode_scratch_bytes(settings, pairs.longest_text_bytes()));
  std::vector<std::int32_t> ids(40);
  Encoded encoded;
  ASSERT_TRUE(encode_text(pairs, settings, 0, ids, &encoded, scratch).ok());
  ids.resize(static_cast<std::size_t>(encoded.tokens));
  EXPECT_EQ(ids, tokenizer->encode("translate: a cat and a tree"));
}

TEST_F(Targets, AreCountedWhereTheyAreCut) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  const auto cut = [&](int text) { return plan_loader(settings).streams[0].texts[text].cut; };
  // The texts that have more tokens than this.
  const auto longer = [&](int text, const std::string& prefix, std::size_t most) {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < pairs.rows(); ++row) {
      const std::string_view own = text == 0 ? pairs.row(row).text : *pairs.row(row).second_text;
      count += test::emoji_tokenizer().encode(prefix + std::string(own)).size() > most ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(cut(0), longer(0, "", kSourceLength));
  EXPECT_EQ(cut(1), longer(1, "", kTargetLength));
  settings.cache = IndexCache{folder_.path() + "/cache", 1};
  EXPECT_EQ(cut(0), longer(0, "", kSourceLength));
  EXPECT_EQ(cut(0), longer(0, "", kSourceLength)) << "from the cache";
  settings.source_prefix = "a b ";
  EXPECT_EQ(cut(0), longer(0, "a b ", kSourceLength)) << "with a prefix, which the cache tells apart";
  EXPECT_GT(cut(0), longer(0, "", kSourceLength));
  settings.streams[0].max_target_length = 9;
  EXPECT_EQ(cut(1), longer(1, "", 9));
  EXPECT_LT(cut(1), longer(1, "", kTargetLength));
  EXPECT_GT(cut(1), 0);
}

TEST_F(Targets, AreNotRefusedForATokenThatIsCut) {
  const Manifest pairs = manifest("source,target\na a a a a a a zoo,a\n");
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  const std::vector<std::int32_t> whole = test::emoji_tokenizer().encode(pairs.row(0).text);
  const std::vector<std::int32_t> kept = test::emoji_tokenizer().encode(pairs.row(0).text, kSourceLength);
  const std::int32_t greatest = *std::max_element(kept.begin(), kept.end());
  ASSERT_GT(*std::max_element(whole.begin(), whole.end()), greatest);
  settings.texts[0].vocabulary_size = greatest + 1;
  EXPECT_EQ(refusal(settings), "no error");
  settings.texts[0].vocabulary_size = greatest;
  EXPECT_NE(refusal(settings).find("the tokenizer gives token"), std::string::npos);
}

TEST_F(Targets, MayBeTakenAsLongAsTheyMayBe) {
  const Manifest pairs = manifest("source,target\na b,c\n");
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  settings.takes_limits = true;
  EXPECT_EQ(plan_loader(settings).streams[0].texts[0].longest, 4) << "a single row is measured";
  settings.cache = IndexCache{folder_.path() + "/cache", 1};
  const StreamPlan limits = plan_loader(settings).streams[0];
  EXPECT_EQ(limits.texts[0].longest, kSourceLength);
  EXPECT_EQ(limits.texts[1].longest, kTargetLength);
  EXPECT_TRUE(limits.texts[0].is_limit && limits.texts[1].is_limit);
  settings.takes_limits = false;
  EXPECT_EQ(plan_loader(settings).streams[0].texts[0].longest, 4);
  settings.takes_limits = true;
  const StreamPlan known = plan_loader(settings).streams[0];
  EXPECT_EQ(known.texts[0].longest, 4);
  EXPECT_FALSE(known.texts[0].is_limit || known.texts[1].is_limit);
}

// A plan that is made again and again, for other batches, reads no text again.
TEST_F(Targets, AreNotMeasuredWhereAnotherPlanHas) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  TextPlan planned[kMaxTexts];
  planned[0].longest = 7;
  planned[1].longest = 5;
  settings.streams[0].planned = planned;
  const StreamPlan plan = plan_loader(settings).streams[0];
  EXPECT_EQ(plan.bounds[tokens_of_text(0)], 5 * 7);
  EXPECT_EQ(plan.bounds[tokens_of_text(1)], 5 * 5);
}

TEST_F(Targets, HaveTargetsOfAnEvaluationWithALimitOfTheirOwn) {
  const Manifest pairs = manifest(rows());
  LoaderSettings settings = this->settings(pairs, Reads::kAttended, Reads::kWritten);
  settings.streams.push_back(settings.streams[0]);
  settings.streams[1].max_target_length = 10;
  const LoaderPlan plan = plan_loader(settings);
  EXPECT_EQ(plan.streams[0].texts[1].longest, kTargetLength);
  EXPECT_EQ(plan.streams[1].texts[1].longest, 10);
  settings.texts[1].max_positions = 9;
  EXPECT_EQ(refusal(settings, ErrorKind::kSettings),
            "data.val_max_target_length: 10: the model has positions for at most 9 tokens; lower it, or begin with a "
            "model that has more positions");
}

}  // namespace
}  // namespace bascule::test_targets
