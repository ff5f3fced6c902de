// SPDX-License-Identifier: Apache-2.0
// Loss and metrics of each head from hand-made batches, of which the last is smaller and some have rows left out.
#include "src/train/judged_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/base/align.h"
#include "src/runtime/threads.h"
#include "tests/data/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kBatch = 2;

class Judging {
 public:
  // pictures: of each row, by the letter that names it.
  Judging(ModelHead head, const std::string& pictures, std::int64_t width)
      : width_(width), products_(GemmCache::make(1)), threads_(1, false) {
    std::string rows;
    for (std::size_t i = 0; i < pictures.size(); ++i)
      rows += std::string("{\"image\": \"") + pictures[i] + ".jpg\", \"caption\": \"c\"}\n";
    manifest_ = std::make_unique<Manifest>(Manifest::load(folder_.write("rows.jsonl", rows), ManifestColumns()));
    const JudgedSplit::Shape shape{head, manifest_->rows() + 3, kBatch, width};
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, JudgedSplit::bytes(shape))));
    split_ = std::make_unique<JudgedSplit>(shape, memory_.get(), *products_);
    begin();
  }
  void begin() { split_->begin(manifest_->rows()); }

  // The rows of batch `index` that are judged; selected: labelled tokens.
  void take(std::int64_t index, const std::vector<std::int64_t>& rows, const BatchOutputs& outputs,
            const std::vector<std::int32_t>& labels = {}, std::int64_t selected = 0) {
    Batch batch;
    batch.counts.samples = static_cast<std::int64_t>(rows.size());
    batch.counts.selected_rows = selected;
    batch.first_position = index * kBatch;
    batch.positions = std::min(kBatch, manifest_->rows() - batch.first_position);
    batch.rows = rows.data();
    batch.labels = labels.data();
    split_->take(batch, outputs, *manifest_);
  }
  // Contrastive: text and image embeddings of the batch's rows.
  void take(std::int64_t index, const std::vector<std::int64_t>& rows, float loss, const std::vector<float>& text,
            const std::vector<float>& images) {
    ASSERT_EQ(text.size(), rows.size() * static_cast<std::size_t>(width_));
    BatchOutputs outputs;
    outputs.loss = loss;
    outputs.text_embeds = text.data();
    outputs.image_embeds = outputs.cross_embeds = images.data();
    take(index, rows, outputs);
  }
  EvaluationRecord finish() {
    EvaluationRecord record;
    split_->finish(threads_, &record);
    return record;
  }
  const JudgedSplit& split() const { return *split_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::int64_t width_;
  TemporaryFolder folder_;
  std::unique_ptr<Manifest> manifest_;
  std::unique_ptr<GemmCache> products_;
  Threads threads_;
  std::unique_ptr<std::byte, Free> memory_;
  std::unique_ptr<JudgedSplit> split_;
};

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
