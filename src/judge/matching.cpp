// SPDX-License-Identifier: Apache-2.0
// Judges whether a model tells a picture's own caption from another's: accuracy, and the area under the ROC curve.
// Leaves predictions.jsonl.
#include <algorithm>

#include "src/base/elementary.h"
#include "src/base/span.h"
#include "src/judge/examples.h"
#include "src/judge/judge.h"
#include "src/judge/statistics.h"

namespace bascule {
namespace {

constexpr Metric kAreaUnderCurve = {"auc", "area under the ROC curve", 7, false, false, 2};
constexpr Metric kMatchingMetrics[] = {kAccuracy, kAreaUnderCurve};

class Matching final : public Judge {
 public:
  explicit Matching(const JudgeShape& shape) : Judge(shape), label_field_(field_number("labels")) {
    const std::int64_t rows = align_up<std::int64_t>(shape.max_rows, 16);
    plan(Part::kRows, &scores_, rows);
    plan(Part::kRows, &labels_, rows);
    plan(Part::kPredictions, &caption_rows_, shape.predicted_rows);
    plan(Part::kScratch, &order_, rows);
    read(&hits_, "hits");
    read(&logits_, "logits");
  }

  const char* file() const override { return kPredictionsFile; }
  std::int64_t file_bytes(std::int64_t of_manifest) const override {
    return predictions_bytes(of_manifest, shape().predicted_rows, 0);
  }

  // `matched`: whether the caption is the picture's; the caption is the one that the model saw.
  void write_files(const JudgedFiles& files, Report*) const override {
    if (!keeps_predictions()) return;
    write_predictions(files, rows(), caption_rows_, [&](JsonStream& out, std::int64_t place, std::int64_t) {
      if (!files.manifest.is_unlabelled()) out.key("matched").boolean(labels_[place] == 1);
      out.key("predicted").boolean(scores_[place] > 0.0f);
      out.key("probability").number(1.0 / (1.0 + fixed_exp(-static_cast<double>(scores_[place]))));
    });
  }

 protected:
  void take_rows(const Batch& batch, const Manifest&, Sums* sums) noexcept override {
    const std::int32_t* const labels = batch.field<std::int32_t>(label_field_);
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      const std::int64_t row = batch.rows[s];
      scores_[row] = logits_[2 * s + 1] - logits_[2 * s];
      labels_[row] = labels[s];
      if (keeps_predictions()) caption_rows_[row] = static_cast<std::int32_t>(batch.rows_of_texts[s]);
    }
    sums->right = static_cast<double>(std::count(hits_, hits_ + batch.counts.samples(), 1));
  }

  void move_row(std::int64_t to, std::int64_t from) noexcept override {
    scores_[to] = scores_[from];
    labels_[to] = labels_[from];
  }

  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    (*record)[kAccuracy] = sums->share_right();
    (*record)[kAreaUnderCurve] = area_under_curve(scores_, labels_, order_, record->samples);
  }

 private:
  const int label_field_;
  const std::int32_t* hits_ = nullptr;  // (samples), 1 where the larger logit is the label's
  const float* logits_ = nullptr;       // (samples, 2)
  float* scores_ = nullptr;             // by row: the logit of a match less that of none
  std::int32_t* labels_ = nullptr;      // by row
  std::int32_t* caption_rows_ = nullptr;
  std::int32_t* order_ = nullptr;
};

}  // namespace

extern const JudgeKind kMatching;
const JudgeKind kMatching = judge_kind<Matching>("matching", kMatchingMetrics, true);

}  // namespace bascule
