// SPDX-License-Identifier: Apache-2.0
// Loss and metrics of each judge from hand-made batches, of which the last is smaller and some have rows left out.
#include "src/judge/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "tests/judge/judging.h"

namespace bascule::test {
namespace {

// Three pictures; a has the captions 0, 1 and 3.
TEST(Judge, ContrastiveLossIsTheMeanOverSamplesAndRecallRanksPictures) {
  Judging judging(kRetrieval, "aabac", 2);
  judging.take(2, {4}, 4.0f, {1, 0}, {0.6f, 0.8f});  // in any order
  judging.take(0, {0, 1}, 1.0f, {1, 0, 0, 1}, {1, 0, 1, 0});
  judging.take(1, {2, 3}, 2.0f, {0, 1, -1, 0}, {0, 1, 1, 0});
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 5);
  EXPECT_DOUBLE_EQ(record.loss, (2 * 1.0 + 2 * 2.0 + 1 * 4.0) / 5.0);
  // Captions 0 and 2 find their pictures; caption 1 has two pictures before a; 3 has two; 4 has a before c.
  EXPECT_DOUBLE_EQ(judging.metric(record, "text_to_image_recall_at_1"), 2.0 / 5.0);
  EXPECT_DOUBLE_EQ(judging.metric(record, "text_to_image_recall_at_5"), 1.0);
  // Picture a: its best caption scores 1, as does that of c. Picture b: 1, as does the second of a. Picture c: its own
  // scores 0.6, those of 1 and 2 score 0.8.
  EXPECT_DOUBLE_EQ(judging.metric(record, "image_to_text_recall_at_1"), 0.0);
  EXPECT_DOUBLE_EQ(judging.metric(record, "image_to_text_recall_at_5"), 1.0);
  // No other judge's metric has a value.
  EXPECT_TRUE(std::isnan(record[metric_of(kMatching, "accuracy")]));
}

TEST(Judge, RowsLeftOutAreInNoFigureAndTheOthersMoveTogether) {
  Judging judging(kRetrieval, "abcdefg", 2);
  for (int round = 0; round < 2; ++round) {  // an evaluation finds the rows of the one before it in the memory
    judging.begin();
    judging.take(0, {1}, 3.0f, {1, 0}, {1, 0});
    judging.take(1, {}, 0.0f, {}, {});
    judging.take(2, {4, 5}, 1.0f, {0, 1, 0.6f, 0.8f}, {0, 1, 0.6f, 0.8f});
    judging.take(3, {6}, 8.0f, {0, -1}, {0, -1});
    const EvaluationRecord record = judging.finish();
    EXPECT_EQ(record.samples, 4);
    EXPECT_DOUBLE_EQ(record.loss, (1 * 3.0 + 2 * 1.0 + 1 * 8.0) / 4.0);
    EXPECT_DOUBLE_EQ(judging.metric(record, "text_to_image_recall_at_1"), 1.0);
    EXPECT_DOUBLE_EQ(judging.metric(record, "image_to_text_recall_at_1"), 1.0);
    EXPECT_EQ(judging.rows(), (std::vector<std::int32_t>{1, 4, 5, 6}));
    EXPECT_EQ(judging.embeddings("text_embeds"), (std::vector<float>{1, 0, 0, 1, 0.6f, 0.8f, 0, -1}));
    EXPECT_EQ(judging.embeddings("image_embeds").size(), 8u);
    EXPECT_EQ(judging.embeddings("cross_embeds")[7], -1.0f);
  }
}

TEST(Judge, SaysWhereNothingCouldBeJudged) {
  Judging judging(kRetrieval, "ab", 2);
  judging.take(0, {}, 0.0f, {}, {});
  EXPECT_EQ(judging.finish().samples, 0);
}

Computed matching(float loss, const std::vector<float>& logits, const std::vector<std::int32_t>& hits) {
  Computed computed;
  computed.loss = loss;
  computed.logits = logits;
  computed.hits = hits;
  return computed;
}

// Scores (second logit less the first) of the rows 0, 1, 3, 4, 5 and 6: 2, -1, 1, 2, -1 and 1; labels 1, 0, 0, 1, 1 and
// 1.
TEST(Judge, MatchingAccuracyAndAreaUnderTheCurve) {
  Judging judging(kMatching, "abcdefg", 0);
  const std::vector<float> first = {1, 3, 1, 0}, second = {0, 1}, third = {0, 2, 5, 4}, last = {0, 1};
  judging.take(0, {0, 1}, matching(0.5f, first, {1, 1}), {1, 0});
  judging.take(1, {3}, matching(2.0f, second, {0}), {0});
  judging.take(2, {4, 5}, matching(0.25f, third, {1, 0}), {1, 1});
  judging.take(3, {6}, matching(1.0f, last, {1}), {1});
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 6);
  EXPECT_DOUBLE_EQ(record.loss, (2 * 0.5 + 2.0 + 2 * 0.25 + 1.0) / 6.0);
  EXPECT_DOUBLE_EQ(judging.metric(record, "accuracy"), 4.0 / 6.0);
  // Positives 2, 2, -1 and 1, negatives -1 and 1: of 8 pairs 2 + 2 are right for the first two, half for the third, and
  // one and a half for the fourth.
  EXPECT_DOUBLE_EQ(judging.metric(record, "auc"), (2 + 2 + 0.5 + 1.5) / 8.0);
  EXPECT_TRUE(std::isnan(record[metric_of(kTokens, "perplexity")]));
}

// Six classes, the label's is the last: right in row 1, sixth in rows 3 and 5, fifth in row 4. Rows 0 and 2 are left
// out.
TEST(Judge, AccuracyAmongFiveIsOfTheRowsJudged) {
  Judging judging(kClasses, "abcdef", 6);
  const std::vector<std::int32_t> labels = {5, 5};
  Computed computed;
  computed.hits = {1};
  computed.logits = {0, 0, 0, 0, 0, 1};
  judging.take(0, {1}, computed, labels);
  computed.hits = {0};
  computed.logits = {1, 1, 1, 1, 1, 0};
  judging.take(1, {3}, computed, labels);
  computed.hits = {0, 0};
  computed.logits = {3, 3, 3, 3, 0, 2, 1, 1, 1, 1, 1, 0};
  judging.take(2, {4, 5}, computed, labels);
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 4);
  EXPECT_DOUBLE_EQ(judging.metric(record, "accuracy"), 1.0 / 4.0);
  EXPECT_DOUBLE_EQ(judging.metric(record, "top5_accuracy"), 2.0 / 4.0);
}

TEST(Judge, MaskedLmFiguresAreOverLabelledTokens) {
  Judging judging(kTokens, "abcde", 0);
  Computed computed;
  computed.hits = {1, 0, 1, 1};
  computed.loss = 2.0f;
  judging.take(0, {0, 1}, computed, {7, 7, 7, 7}, 4);
  computed.loss = 0.5f;
  judging.take(1, {3}, computed, {7}, 1);
  computed.loss = 1.0f;
  judging.take(2, {4}, computed, {7, 7}, 2);
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 4);
  EXPECT_DOUBLE_EQ(record.loss, (4 * 2.0 + 1 * 0.5 + 2 * 1.0) / 7.0);
  EXPECT_DOUBLE_EQ(judging.metric(record, "accuracy"), (3 + 1 + 1) / 7.0);
  EXPECT_DOUBLE_EQ(judging.metric(record, "perplexity"), std::exp(record.loss));
}

TEST(Judge, WithoutALabelledTokenThereIsNoLoss) {
  Judging judging(kTokens, "ab", 0);
  judging.take(0, {0, 1}, Computed(), {7, 7}, 0);
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.samples, 2);
  EXPECT_TRUE(std::isnan(record.loss));
  EXPECT_TRUE(std::isnan(record[metric_of(kTokens, "accuracy")]));
}

// Two tokens and two samples, then one token and one sample.
TEST(Judge, PretrainingFiguresAreOverTheCountOfEachTerm) {
  Judging judging(kPretraining, "abc", 0);
  Computed computed;
  computed.hits = {1, 0, 0};
  computed.sentence_hits = {1, 1};
  computed.loss = 2.0f;
  computed.sentence_loss = 0.75f;
  judging.take(0, {0, 1}, computed, {7, 7, 7}, 3);
  computed.loss = 1.0f;
  computed.sentence_loss = 0.25f;
  computed.sentence_hits = {0};
  judging.take(1, {2}, computed, {7}, 1);
  const EvaluationRecord record = judging.finish();
  const double tokens = (3 * 2.0 + 1 * 1.0) / 4.0, sentences = (2 * 0.75 + 1 * 0.25) / 3.0;
  EXPECT_DOUBLE_EQ(record.loss, tokens + sentences);
  EXPECT_DOUBLE_EQ(judging.metric(record, "masked_lm_loss"), tokens);
  EXPECT_DOUBLE_EQ(judging.metric(record, "perplexity"), std::exp(tokens));
  EXPECT_DOUBLE_EQ(judging.metric(record, "masked_lm_accuracy"), 2.0 / 4.0);
  EXPECT_DOUBLE_EQ(judging.metric(record, "next_sentence_loss"), sentences);
  EXPECT_DOUBLE_EQ(judging.metric(record, "next_sentence_accuracy"), 2.0 / 3.0);
}

// A judge from outside: it counts the rows that it took, as a metric of its own.
constexpr Metric kCounted[] = {{"counted", "rows counted", 8, false, false, 1}};

class Counting final : public Judge {
 public:
  explicit Counting(const JudgeShape& shape) : Judge(shape) {}
  const char* file() const override { return "nothing"; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}

 protected:
  void take_rows(const Batch& batch, const Manifest&, Sums* sums) noexcept override {
    sums->right = static_cast<double>(batch.counts.samples());
  }
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    (*record)[kCounted[0]] = sums->right;
  }
};
const JudgeKind kCounting = {"counting", {kCounted, 1}, false, "", [](const JudgeShape& shape) {
                               return std::unique_ptr<Judge>(new Counting(shape));
                             }};

TEST(Judges, AJudgeFromOutsideIsFoundByItsName) {
  add_judge(kCounting);
  Judging judging("counting", "abc", 0);
  Computed computed;
  computed.loss = 2.0f;
  judging.take(0, {0, 1}, computed);
  judging.take(1, {2}, computed);
  const EvaluationRecord record = judging.finish();
  EXPECT_EQ(record.loss, 2.0);
  EXPECT_EQ(judging.metric(record, "counted"), 3.0);
}

// Asks for an output and a field by their names.
class Asking final : public Judge {
 public:
  Asking(const JudgeShape& shape, const char* output, const char* field) : Judge(shape) {
    read(&output_, output);
    field_ = field_number(field);
  }
  const char* file() const override { return "nothing"; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}
  const float* read_at() const { return output_; }
  int field_at() const { return field_; }

 protected:
  void take_rows(const Batch&, const Manifest&, Sums*) noexcept override {}
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums*, EvaluationRecord*) noexcept override {}

 private:
  const float* output_ = nullptr;
  int field_ = -1;
};

JudgeShape shape_to_ask() {
  JudgeShape shape;
  shape.losses = {{"loss", kSamples}};
  shape.fields = fields_of_batches;
  shape.outputs = {{"loss"}, {"logits"}};
  return shape;
}

TEST(Judges, FindsWhatItReadsByItsName) {
  Asking judge(shape_to_ask(), "logits", "selected_rows");
  EXPECT_EQ(judge.field_at(), kSelected);
  EXPECT_EQ(judge.read_at(), nullptr);
  const float loss = 0.0f, logits = 0.0f;
  std::vector<std::byte> memory(judge.bytes());
  OwnProducts products(1);
  judge.seal(memory.data(), nullptr, {{"loss", 1, &loss}, {"logits", 1, &logits}}, products);
  EXPECT_EQ(judge.read_at(), &logits);
}

TEST(Judges, RefuseAWrongNameBeforeTheSeal) {
  const JudgeShape shape = shape_to_ask();
  EXPECT_DEATH(Asking(shape, "logitz", "labels"), "found != shape_.outputs.end");
  EXPECT_DEATH(Asking(shape, "logits", "labelz"), "number >= 0");
}

TEST(Judges, NoTwoMetricsOfAJudgeShareAPlaceInCheckpoints) {
  for (const char* name : {kRetrieval, kMatching, kTokens, kPretraining, "sentence_retrieval", "sentence_similarity"}) {
    std::set<int> slots;
    for (const Metric& metric : judge_named(name).metrics) {
      EXPECT_TRUE(slots.insert(metric.slot).second) << metric.key;
      EXPECT_GE(metric.slot, 0);
      EXPECT_LT(metric.slot, kMetricSlots);
    }
  }
}

}  // namespace
}  // namespace bascule::test
