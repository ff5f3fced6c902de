// SPDX-License-Identifier: Apache-2.0
// Lines of predictions.jsonl from hand-made batches, of which some rows are left out.
#include "src/judge/examples.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/judge/judging.h"

namespace bascule::test {
namespace {

const std::vector<std::string> kTexts = {"<s>", "</s>", "a", "\u0120\"b", ""};

Batch batch_of(std::int64_t index, const std::vector<std::int64_t>& rows) {
  Batch batch;
  batch.counts[kSamples] = static_cast<std::int64_t>(rows.size());
  batch.first_position = index * kBatch;
  batch.positions = kBatch;
  batch.rows = rows.data();
  return batch;
}

// Row 1 is left out; rows 0 and 3 have the captions of others. A score of 0 predicts no match: the first class wins.
TEST(Predictions, OfMatchingAreOfThePairThatWasJudged) {
  Judging judging(kMatching, "abcd", 0, true);
  const std::vector<std::int64_t> first = {0}, second = {2, 3}, captions[2] = {{2}, {2, 0}};
  const std::vector<std::int32_t> labels[2] = {{0}, {1, 0}}, hits = {0, 0};
  const std::vector<float> logits[2] = {{1.0f, 1.0f}, {3.0f, 2.0f, -1.0f, 1.0f}};
  for (int b = 1; b >= 0; --b) {
    Batch batch = batch_of(b, b == 0 ? first : second);
    batch.rows_of_texts = captions[b].data();
    batch.fields[kLabels] = labels[b].data();
    Computed computed;
    computed.logits = logits[b];
    computed.hits = hits;
    judging.take(batch, computed);
  }
  judging.finish();
  const std::vector<std::string> expected = {
      "{\"row\": 0, \"image\": \"a.jpg\", \"caption\": \"c2\", \"matched\": false, \"predicted\": false, "
      "\"probability\": 0.5}\n",
      "{\"row\": 2, \"image\": \"c.jpg\", \"caption\": \"c2\", \"matched\": true, \"predicted\": false, "
      "\"probability\": 0.2689414213699951}\n",
      "{\"row\": 3, \"image\": \"d.jpg\", \"caption\": \"c0\", \"matched\": false, \"predicted\": true, "
      "\"probability\": 0.8807970779778823}\n"};
  EXPECT_EQ(judging.lines(kTexts), expected);
}

// Row 0 has two labelled tokens, row 1 none, row 2 is left out, row 3 has one.
void judge_tokens(Judging& judging) {
  const std::vector<std::int64_t> first = {0, 1}, second = {3};
  const std::vector<std::int32_t> offsets[2] = {{0, 4, 6}, {0, 3}}, selected[2] = {{1, 2}, {1}};
  const std::vector<std::int32_t> labels[2] = {{2, 3}, {2}}, predicted[2] = {{2, 3, 2, 3}, {4, 2}}, hits = {1, 0};
  const std::vector<std::int32_t> ids[2] = {{0, 5, 3, 1, 0, 1}, {0, 2, 1}};
  const std::vector<float> probabilities[2] = {{0.75f, 0.125f}, {0.5f}};
  const std::vector<float> guessed[2] = {{0.75f, 0.25f, 0.875f, 0.125f}, {0.5f, 0.25f}};
  for (int b = 0; b < 2; ++b) {
    Batch batch = batch_of(b, b == 0 ? first : second);
    batch.counts[kMaskedTokens] = static_cast<std::int64_t>(selected[b].size());
    batch.fields[kOffsets] = offsets[b].data();
    batch.fields[kSelected] = selected[b].data();
    batch.fields[kLabels] = labels[b].data();
    batch.fields[kTokenIds] = ids[b].data();
    Computed computed;
    computed.hits = hits;
    computed.predicted = predicted[b];
    computed.predicted_probabilities = guessed[b];
    computed.probabilities = probabilities[b];
    judging.take(batch, computed);
  }
  judging.finish();
}

TEST(Predictions, OfPretrainingSayWhetherTheSecondTextFollows) {
  Judging judging(kPretraining, "ab", 0, true, 1);
  const std::vector<std::int64_t> rows = {0, 1};
  const std::vector<std::int32_t> offsets = {0, 4, 7}, selected = {2}, labels = {2}, sentences = {1, 0},
                                  ids = {0, 2, 4, 1, 0, 2, 1};
  Batch batch = batch_of(0, rows);
  batch.counts[kMaskedTokens] = 1;
  batch.fields[kOffsets] = offsets.data();
  batch.fields[kSelected] = selected.data();
  batch.fields[kLabels] = labels.data();
  batch.fields[kSentenceLabels] = sentences.data();
  batch.fields[kTokenIds] = ids.data();
  Computed computed;
  computed.hits = {1};
  computed.predicted = {2, 3};
  computed.predicted_probabilities = {0.5f, 0.25f};
  computed.probabilities = {0.5f};
  computed.sentence_hits = {0, 1};
  computed.sentence_predicted = {0, 0};
  computed.sentence_probabilities = {0.25f, 0.75f};
  judging.take(batch, computed);
  judging.finish();
  const std::vector<std::string> expected = {
      "{\"row\": 0, \"image\": \"a.jpg\", \"caption\": \"c0\", \"tokens\": [{\"position\": 2, \"expected\": \"a\", "
      "\"predicted\": \"a\", \"probability\": 0.5, \"guesses\": [{\"token\": \"a\", \"probability\": 0.5}, {\"token\": "
      "\"\u0120\\\"b\", \"probability\": 0.25}]}], \"next_sentence\": {\"expected\": 1, \"predicted\": 0, "
      "\"probability\": 0.25}}\n",
      "{\"row\": 1, \"image\": \"b.jpg\", \"caption\": \"c1\", \"tokens\": [], \"next_sentence\": {\"expected\": 0, "
      "\"predicted\": 0, \"probability\": 0.75}}\n"};
  EXPECT_EQ(judging.lines(kTexts), expected);
  const TemporaryFolder folder;
  const Report report = judging.write(folder.path(), kTexts);
  ASSERT_EQ(report.sentence_examples.size(), 2u);
  const SentenceExample &wrong = report.sentence_examples[0], &right = report.sentence_examples[1];
  EXPECT_TRUE(wrong.is_pair && !wrong.follows && wrong.predicted_to_follow);
  EXPECT_EQ(wrong.probability, 0.75);
  EXPECT_TRUE(right.is_pair && right.follows && right.predicted_to_follow);
  EXPECT_EQ(right.probability, 0.75);
}

// The model has a class that the tokenizer has no token for.
TEST(Predictions, OfMaskedLmNameTokens) {
  Judging judging(kTokens, "abcd", 0, true, 2);
  judge_tokens(judging);
  const std::vector<std::string> expected = {
      "{\"row\": 0, \"image\": \"a.jpg\", \"caption\": \"c0\", \"tokens\": ["
      "{\"position\": 1, \"expected\": \"a\", \"predicted\": \"a\", \"probability\": 0.75, \"guesses\": [{\"token\": "
      "\"a\", \"probability\": 0.75}, {\"token\": \"\u0120\\\"b\", \"probability\": 0.25}]}, "
      "{\"position\": 2, \"expected\": \"\u0120\\\"b\", \"predicted\": \"a\", \"probability\": 0.125, \"guesses\": "
      "[{\"token\": \"a\", \"probability\": 0.875}, {\"token\": \"\u0120\\\"b\", \"probability\": 0.125}]}]}\n",
      "{\"row\": 1, \"image\": \"b.jpg\", \"caption\": \"c1\", \"tokens\": []}\n",
      "{\"row\": 3, \"image\": \"d.jpg\", \"caption\": \"c3\", \"tokens\": ["
      "{\"position\": 1, \"expected\": \"a\", \"predicted\": null, \"probability\": 0.5, \"guesses\": [{\"token\": "
      "null, \"probability\": 0.5}, {\"token\": \"a\", \"probability\": 0.25}]}]}\n"};
  EXPECT_EQ(judging.lines(kTexts), expected);
}

// A row has the tokens that the model saw; a labelled token also has what was expected and the guesses.
TEST(Predictions, OfMaskedLmAreShownAsSentences) {
  Judging judging(kTokens, "abcd", 0, true, 2);
  judge_tokens(judging);
  const TemporaryFolder folder;
  const Report report = judging.write(folder.path(), kTexts);
  ASSERT_EQ(report.sentence_examples.size(), 3u);  // row 2 was left out
  const std::vector<ShownToken>& tokens = report.sentence_examples[0].tokens;
  ASSERT_EQ(tokens.size(), 4u);
  const std::vector<std::string> texts = {"<s>", "5", "\u0120\"b", "</s>"};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(tokens[i].text, texts[i]);
  EXPECT_TRUE(tokens[0].guesses.empty() && tokens[3].guesses.empty());
  EXPECT_EQ(tokens[1].expected, "a");
  ASSERT_EQ(tokens[1].guesses.size(), 2u);
  EXPECT_EQ(tokens[1].guesses[0].name, "a");
  EXPECT_EQ(tokens[1].guesses[0].probability, 0.75);
  EXPECT_TRUE(tokens[1].guesses[0].right && !tokens[1].guesses[1].right);
  EXPECT_EQ(tokens[2].expected, "\u0120\"b");
  EXPECT_TRUE(!tokens[2].guesses[0].right && tokens[2].guesses[1].right);
  EXPECT_EQ(tokens[2].guesses[1].probability, 0.125);
  EXPECT_EQ(report.sentence_examples[1].tokens.size(), 2u);
  EXPECT_EQ(report.sentence_examples[2].tokens[1].guesses[0].name, "4");  // a token without a name
  EXPECT_FALSE(report.sentence_examples[0].is_pair);
}

// Row 1 is left out. Equal logits: the first class.
TEST(Predictions, OfClassesAreShownByClassAndByPicture) {
  Judging judging(kClasses, "abcd", 0, true);
  const std::vector<std::int64_t> rows[2] = {{0}, {2, 3}};
  const std::vector<std::int32_t> labels[2] = {{1}, {0, 1}};
  const std::vector<float> logits[2] = {{1.0f, 1.0f}, {3.0f, 2.0f, -1.0f, 1.0f}};
  for (int b = 0; b < 2; ++b) {
    Batch batch = batch_of(b, rows[b]);
    batch.fields[kLabels] = labels[b].data();
    Computed computed;
    computed.logits = logits[b];
    computed.hits = {b, 1};
    judging.take(batch, computed);
  }
  judging.finish();
  const std::vector<std::string> named = judging.lines({}, {"cat", "a \"dog\""}), numbered = judging.lines({});
  ASSERT_EQ(named.size(), 3u);
  EXPECT_EQ(named[0],
            "{\"row\": 0, \"image\": \"a.jpg\", \"caption\": \"c0\", \"label\": 1, \"label_name\": \"a \\\"dog\\\"\", "
            "\"predicted\": [{\"class\": 0, \"class_name\": \"cat\", \"probability\": 0.5}, {\"class\": 1, "
            "\"class_name\": \"a \\\"dog\\\"\", \"probability\": 0.5}]}\n");
  EXPECT_EQ(numbered[0],
            "{\"row\": 0, \"image\": \"a.jpg\", \"caption\": \"c0\", \"label\": 1, \"predicted\": [{\"class\": 0, "
            "\"probability\": 0.5}, {\"class\": 1, \"probability\": 0.5}]}\n");
  const TemporaryFolder folder;
  const Report report = judging.write(folder.path(), {}, {"cat", "dog"});
  ASSERT_EQ(report.class_accuracies.size(), 2u);
  EXPECT_EQ(report.class_accuracies[0].name, "dog");  // the least accurate first
  EXPECT_EQ(report.class_accuracies[0].rows, 2);
  EXPECT_EQ(report.class_accuracies[0].right, 1);
  EXPECT_EQ(report.class_accuracies[1].right, 1);
  ASSERT_EQ(report.confusions.size(), 1u);
  EXPECT_EQ(report.confusions[0].label + " " + report.confusions[0].predicted, "dog cat");
  ASSERT_EQ(report.class_examples.size(), 3u);
  const ClassExample& last = report.class_examples[2];
  EXPECT_EQ(report.pictures[last.picture].name, "d.jpg");
  EXPECT_EQ(last.label, "dog");
  ASSERT_EQ(last.guesses.size(), 2u);
  EXPECT_TRUE(last.guesses[0].name == "dog" && last.guesses[0].right);
  EXPECT_NEAR(last.guesses[0].probability, 0.8807970779778823, 1e-7);
}

TEST(Predictions, OfTextsAreShownWhereTheyAreWrongTheSurestFirst) {
  const TemporaryFolder folder;
  ManifestColumns columns{"", "text", "label", 2};
  const Manifest manifest =
      Manifest::load(folder.write("rows.csv", "text,label\nright,1\nunsure,0\nsure,0\nskipped,0\n"), columns);
  const std::vector<std::int32_t> rows = {0, 1, 2}, labels = {1, 0, 0, 0};
  const std::vector<ClassPrediction> best = {{1, 0.99f}, {1, 0.6f}, {1, 0.9f}, {1, 1.0f}};
  Report report;
  add_class_examples(&report, {Span<const std::int32_t>(rows), labels.data(), best.data(), 1, 1}, manifest,
                     {"no", "yes"});
  ASSERT_EQ(report.text_mistakes.size(), 2u);
  EXPECT_EQ(report.text_mistakes[0].text, "sure");
  EXPECT_EQ(report.text_mistakes[0].label, "no");
  EXPECT_EQ(report.text_mistakes[0].guesses[0].name, "yes");
  EXPECT_EQ(report.text_mistakes[1].text, "unsure");
}

TEST(Predictions, OfWhichExamplesAreShownAreSpreadOverAllRows) {
  const std::vector<std::int64_t> rows = {2, 3, 5, 7, 11, 13, 17};
  EXPECT_EQ(evenly_spaced(rows, 3), (std::vector<std::int64_t>{2, 5, 11}));
  EXPECT_EQ(evenly_spaced(rows, 9), rows);
  EXPECT_EQ(evenly_spaced({}, 3), std::vector<std::int64_t>());
}

TEST(Predictions, AreWrittenWholeAndInPlaceOfAnOlderFile) {
  Judging judging(kTokens, "abcd", 0, true, 2);
  judge_tokens(judging);
  TemporaryFolder folder;
  folder.write(kPredictionsFile, "of another run\n");
  (void)judging.write(folder.path(), kTexts);
  std::string expected;
  for (const std::string& line : judging.lines(kTexts)) expected += line;
  std::ifstream file(folder.path() + "/" + kPredictionsFile);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), expected);
}

// A line has room for whatever a row holds.
TEST(Predictions, OfARowWithManyTokensAreWhole) {
  constexpr std::int32_t kMany = 500;
  Judging judging(kTokens, "ab", 0, true, kMany);
  const std::vector<std::int64_t> rows = {0};
  const std::vector<std::int32_t> offsets = {0, kMany}, tokens(kMany, 2), hits(kMany, 1);
  std::vector<std::int32_t> selected;
  for (std::int32_t i = 0; i < kMany; ++i) selected.push_back(i);
  const std::vector<float> probabilities(kMany, 0.3f);
  Batch batch = batch_of(0, rows);
  batch.counts[kMaskedTokens] = kMany;
  batch.fields[kOffsets] = offsets.data();
  batch.fields[kSelected] = selected.data();
  batch.fields[kLabels] = batch.fields[kTokenIds] = tokens.data();
  Computed computed;
  computed.hits = hits;
  computed.predicted.assign(2 * kMany, 2);
  computed.probabilities = probabilities;
  judging.take(batch, computed);
  judging.finish();
  const std::string line = judging.lines(kTexts)[0];
  EXPECT_NE(line.find("{\"position\": 499,"), std::string::npos);
  EXPECT_EQ(line.substr(line.size() - 4), "}]}\n");
}

}  // namespace
}  // namespace bascule::test
