// SPDX-License-Identifier: Apache-2.0
// Loss and metrics of each head from hand-made batches, of which the last is smaller and some have rows left out.
#include "src/train/judged_split.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/train/judging.h"

namespace bascule::test {
namespace {

// Three pictures; a has the captions 0, 1 and 3.
TEST(JudgedSplit, ContrastiveLossIsTheMeanOverSamplesAndRecallRanksPictures) {
  Judging judging(ModelHead::kContrastive, "aabac", 2);
  judging.take(2, {4}, 4.0f, {1, 0}, {0.6f, 0.8f});  // in any order
  judging.take(0, {0, 1}, 1.0f, {1, 0, 0, 1}, {1, 0, 1, 0});
  judging.take(1, {2, 3}, 2.0f, {0, 1, -1, 0}, {0, 1, 1, 0});
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 5);
  EXPECT_DOUBLE_EQ(record.loss, (2 * 1.0 + 2 * 2.0 + 1 * 4.0) / 5.0);
  // Captions 0 and 2 find their pictures; caption 1 has two pictures before a; 3 has two; 4 has a before c.
  EXPECT_DOUBLE_EQ(record[Metric::kTextToImageRecall1], 2.0 / 5.0);
  EXPECT_DOUBLE_EQ(record[Metric::kTextToImageRecall5], 1.0);
  // Picture a: its best caption scores 1, as does that of c. Picture b: 1, as does the second of a. Picture c: its own
  // scores 0.6, those of 1 and 2 score 0.8.
  EXPECT_DOUBLE_EQ(record[Metric::kImageToTextRecall1], 0.0);
  EXPECT_DOUBLE_EQ(record[Metric::kImageToTextRecall5], 1.0);
  EXPECT_TRUE(std::isnan(record[Metric::kAccuracy]));
}

TEST(JudgedSplit, RowsLeftOutAreInNoFigureAndTheOthersMoveTogether) {
  Judging judging(ModelHead::kContrastive, "abcdefg", 2);
  for (int round = 0; round < 2; ++round) {  // an evaluation finds the rows of the one before it in the memory
    judging.begin();
    judging.take(0, {1}, 3.0f, {1, 0}, {1, 0});
    judging.take(1, {}, 0.0f, {}, {});
    judging.take(2, {4, 5}, 1.0f, {0, 1, 0.6f, 0.8f}, {0, 1, 0.6f, 0.8f});
    judging.take(3, {6}, 8.0f, {0, -1}, {0, -1});
    const EvaluationRecord record = judging.finish();
    EXPECT_EQ(record.samples, 4);
    EXPECT_DOUBLE_EQ(record.loss, (1 * 3.0 + 2 * 1.0 + 1 * 8.0) / 4.0);
    EXPECT_DOUBLE_EQ(record[Metric::kTextToImageRecall1], 1.0);
    EXPECT_DOUBLE_EQ(record[Metric::kImageToTextRecall1], 1.0);
    const std::vector<std::int32_t> rows(judging.split().rows().begin(), judging.split().rows().end());
    EXPECT_EQ(rows, (std::vector<std::int32_t>{1, 4, 5, 6}));
    const std::vector<float> text(judging.split().text_embeds().begin(), judging.split().text_embeds().end());
    EXPECT_EQ(text, (std::vector<float>{1, 0, 0, 1, 0.6f, 0.8f, 0, -1}));
    EXPECT_EQ(judging.split().image_embeds().size(), 8u);
    EXPECT_EQ(judging.split().cross_embeds()[7], -1.0f);
  }
}

TEST(JudgedSplit, SaysWhereNothingCouldBeJudged) {
  Judging judging(ModelHead::kContrastive, "ab", 2);
  judging.take(0, {}, 0.0f, {}, {});
  EXPECT_EQ(judging.finish().samples, 0);
}

BatchOutputs matching(float loss, const std::vector<float>& logits, const std::vector<std::int32_t>& hits) {
  BatchOutputs outputs;
  outputs.loss = loss;
  outputs.logits = logits.data();
  outputs.hits = hits.data();
  return outputs;
}

// Scores (second logit less the first) of the rows 0, 1, 3, 4, 5 and 6: 2, -1, 1, 2, -1 and 1; labels 1, 0, 0, 1, 1 and
// 1.
TEST(JudgedSplit, MatchingAccuracyAndAreaUnderTheCurve) {
  Judging judging(ModelHead::kImageTextMatching, "abcdefg", 0);
  const std::vector<float> first = {1, 3, 1, 0}, second = {0, 1}, third = {0, 2, 5, 4}, last = {0, 1};
  judging.take(0, {0, 1}, matching(0.5f, first, {1, 1}), {1, 0});
  judging.take(1, {3}, matching(2.0f, second, {0}), {0});
  judging.take(2, {4, 5}, matching(0.25f, third, {1, 0}), {1, 1});
  judging.take(3, {6}, matching(1.0f, last, {1}), {1});
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 6);
  EXPECT_DOUBLE_EQ(record.loss, (2 * 0.5 + 2.0 + 2 * 0.25 + 1.0) / 6.0);
  EXPECT_DOUBLE_EQ(record[Metric::kAccuracy], 4.0 / 6.0);
  // Positives 2, 2, -1 and 1, negatives -1 and 1: of 8 pairs 2 + 2 are right for the first two, half for the third, and
  // one and a half for the fourth.
  EXPECT_DOUBLE_EQ(record[Metric::kAreaUnderCurve], (2 + 2 + 0.5 + 1.5) / 8.0);
  EXPECT_TRUE(std::isnan(record[Metric::kPerplexity]));
}

TEST(JudgedSplit, MaskedLmFiguresAreOverLabelledTokens) {
  Judging judging(ModelHead::kMaskedLm, "abcde", 0);
  const std::vector<std::int32_t> hits = {1, 0, 1, 1};
  BatchOutputs outputs;
  outputs.hits = hits.data();
  outputs.loss = 2.0f;
  judging.take(0, {0, 1}, outputs, {7, 7, 7, 7}, 4);
  outputs.loss = 0.5f;
  judging.take(1, {3}, outputs, {7}, 1);
  outputs.loss = 1.0f;
  judging.take(2, {4}, outputs, {7, 7}, 2);
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 4);
  EXPECT_DOUBLE_EQ(record.loss, (4 * 2.0 + 1 * 0.5 + 2 * 1.0) / 7.0);
  EXPECT_DOUBLE_EQ(record[Metric::kAccuracy], (3 + 1 + 1) / 7.0);
  EXPECT_DOUBLE_EQ(record[Metric::kPerplexity], std::exp(record.loss));
}

}  // namespace
}  // namespace bascule::test
