// SPDX-License-Identifier: Apache-2.0
// Words with tags in batches: which tokens have a label, and which; words that are cut off; rows without a token.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/loader/loader_run.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_tagged_words {
namespace {

constexpr int kTokens = kFirstModelStream, kTagged = kFirstModelStream + 1;

// With the byte-level tokenizer a word of a rare letter has two tokens, the space and the letter, or more.
constexpr char kRows[] =
    "{\"tokens\": [\"a\", \"\", \"zqxj\", \"b\"], \"tags\": [0, 3, 1, 2]}\n"
    "{\"tokens\": [\"b\"], \"tags\": [2]}\n"
    "{\"tokens\": [\"c\", \"d\", \"e\", \"f\"], \"tags\": [3, 3, 3, 1]}\n";

class TaggedWords : public testing::Test {
 protected:
  Manifest manifest(const std::string& rows = kRows) {
    ManifestColumns columns{"", "tokens", "tags", 4};
    columns.named_classes = columns.words = true;
    return Manifest::load(folder_.write("rows.jsonl", rows), columns);
  }

  static LoaderSettings settings(const Manifest& manifest, std::int64_t length = 32) {
    LoaderSettings settings = test::emoji_settings(manifest);
    const Extent tokens = rows_of_stream(kTokens), tagged = rows_of_stream(kTagged);
    settings.fields = {{"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
                       {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
                       {"labelled_rows", DType::kInt32, tagged, 1, FieldSource::kLabelledRows},
                       {"labels", DType::kInt32, tagged, 1, FieldSource::kTokenLabels},
                       {"label_words", DType::kInt32, tagged, 1, FieldSource::kLabelledWords}};
    settings.reads_words = true;
    settings.texts[0].max_length = length;
    settings.text_columns[0] = "tokens";
    settings.streams[0].shuffled = false;
    settings.streams[0].batch_per_rank = 3;
    return settings;
  }

  struct Labelled {
    std::vector<std::int32_t> ids, rows, labels, words;
  };
  static Labelled labelled(const LoaderSettings& settings) {
    test::LoaderRun run(settings);
    run.stream().start(0, 1);
    const Batch* batch = nullptr;
    EXPECT_TRUE(run.stream().next(&batch).ok());
    const auto all = [&](int field, int stream) {
      const std::int32_t* const first = batch->field<std::int32_t>(field);
      return std::vector<std::int32_t>(first, first + batch->counts[stream]);
    };
    Labelled found{all(0, kTokens), all(2, kTagged), all(3, kTagged), all(4, kTagged)};
    run.stream().release();
    return found;
  }

  static std::string refusal(const LoaderSettings& settings, ErrorKind kind = ErrorKind::kData) {
    return test::error_of([&] { plan_loader(settings); }, kind);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TaggedWords, LabelTheFirstTokenOfEachWord) {
  const Manifest rows = manifest();
  const Labelled found = labelled(settings(rows));
  EXPECT_EQ(found.labels, (std::vector<std::int32_t>{0, 1, 2, 2, 3, 3, 3, 1}));  // the empty word has no token
  EXPECT_EQ(found.words, (std::vector<std::int32_t>{0, 2, 3, 0, 0, 1, 2, 3}));
  EXPECT_EQ(found.rows[0], 1);
  const std::vector<std::int32_t> expected = test::emoji_tokenizer().encode(" a zqxj b");
  ASSERT_GT(expected.size(), 6u);  // the rare word has several tokens
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found.ids[i], expected[i]);
  EXPECT_EQ(found.rows[2], static_cast<std::int32_t>(expected.size()) - 2);
}

TEST_F(TaggedWords, MayLabelTheFurtherTokensToo) {
  const Manifest rows = manifest();
  LoaderSettings settings = this->settings(rows);
  settings.further_labels = {0, 3, 2, 3};
  const Labelled found = labelled(settings);
  const std::size_t all = test::emoji_tokenizer().encode(" a zqxj b").size() - 2;
  ASSERT_EQ(found.labels.size(), all + 1 + 4);
  EXPECT_EQ(found.labels[1], 1);
  for (std::size_t i = 2; i + 1 < all; ++i) {
    EXPECT_EQ(found.labels[i], 3);
    EXPECT_EQ(found.words[i], 2);
    EXPECT_EQ(found.rows[i], found.rows[i - 1] + 1);
  }
  EXPECT_EQ(found.labels[all - 1], 2);
}

TEST_F(TaggedWords, ThatAreCutOffAreCounted) {
  const Manifest rows = manifest();
  const LoaderPlan plan = plan_loader(settings(rows, 5));  // three tokens beside the special ones
  EXPECT_EQ(plan.streams[0].texts[0].cut, 1 + 1);          // "b" of the first row, "f" of the last
  EXPECT_EQ(labelled(settings(rows, 5)).words, (std::vector<std::int32_t>{0, 2, 0, 0, 1, 2}));
  EXPECT_EQ(plan_loader(settings(rows)).streams[0].texts[0].cut, 0);
}

TEST_F(TaggedWords, NeedATokenInEachRow) {
  const Manifest rows =
      manifest("{\"tokens\": [\"a\"], \"tags\": [0]}\n{\"tokens\": [\"\", \"\"], \"tags\": [1, 1]}\n");
  EXPECT_NE(refusal(settings(rows)).find("rows.jsonl:2: no word of column \"tokens\" has a token"), std::string::npos)
      << refusal(settings(rows));
  const Manifest good = manifest();
  EXPECT_NE(refusal(settings(good, 2), ErrorKind::kSettings).find("a sample has 2 special tokens"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test_tagged_words
