// SPDX-License-Identifier: Apache-2.0
// Judges a classifier of texts: the figures of run_glue.py, and the mean of F1 over the classes.
#include <algorithm>
#include <limits>

#include "src/base/largest.h"
#include "src/judge/class_figures.h"
#include "src/judge/classified_rows.h"
#include "src/judge/judges.h"
#include "src/judge/shared_metrics.h"

namespace bascule {
namespace {

constexpr Metric kMacroF1 = {"macro_f1", "F1, mean over the classes", 0, true, false, 2, 2};
constexpr Metric kMatthews = {"matthews_correlation", "Matthews' correlation", 1, false, false, 3, 3};
constexpr Metric kF1OfClass1 = {"f1", "F1 of class 1", 2, true, false, 0, 0, false, true, 2};
constexpr Metric kMeanOfAccuracyAndF1 = {
    "combined_score", "mean of accuracy and F1", 3, true, false, 0, 0, false, true, 2};
constexpr Metric kSequenceClassMetrics[] = {kAccuracy, kMacroF1, kMatthews, kF1OfClass1, kMeanOfAccuracyAndF1};

constexpr char kSequenceClassNote[] =
    "`accuracy`, `f1` (of class 1 in `config.json`, where there are two), `matthews_correlation` and `combined_score`, "
    "the mean of the first two, are those of `run_glue.py`. `macro_f1` is the mean of F1 over the classes that a row "
    "has as its label or its prediction.";

struct ClassifiedSequence {
  std::int32_t label = 0, predicted = 0;
};

class SequenceClasses final : public ClassifiedRows {
 public:
  explicit SequenceClasses(const JudgeShape& shape) : ClassifiedRows(shape, {"text", "text_pair"}) {
    plan(Part::kRows, &judged_, shape.max_rows);
    plan(Part::kScratch, &counts_, classes());
  }

 protected:
  void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept override {
    ClassifiedRows::take_rows(batch, manifest, sums);
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      ClassifiedSequence& row = judged_[batch.rows[s]];
      row.label = labels_of(batch)[s];
      places_of_largest(logits_of(s), classes(), &row.predicted, 1);
    }
  }

  void move_row(std::int64_t to, std::int64_t from) noexcept override { judged_[to] = judged_[from]; }

  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    std::fill_n(counts_, classes(), LabelCounts());
    for (std::int64_t i = 0; i < record->samples; ++i) {
      ++counts_[judged_[i].label].labelled;
      ++counts_[judged_[i].predicted].predicted;
      if (judged_[i].label == judged_[i].predicted) ++counts_[judged_[i].label].both;
    }
    const double accuracy = sums->share_right();
    (*record)[kAccuracy] = accuracy;
    (*record)[kMacroF1] = macro_f1(counts_, classes());
    (*record)[kMatthews] = matthews_correlation(counts_, classes());
    if (classes() != kF1OfClass1.classes) return;
    (*record)[kF1OfClass1] = counts_[1].f1();
    (*record)[kMeanOfAccuracyAndF1] = (accuracy + counts_[1].f1()) / 2.0;
  }

 private:
  ClassifiedSequence* judged_ = nullptr;  // by row
  LabelCounts* counts_ = nullptr;         // by class
};

}  // namespace

extern const JudgeKind kSequenceClasses;
const JudgeKind kSequenceClasses = {
    "sequence_classes",
    {kSequenceClassMetrics, std::size(kSequenceClassMetrics)},
    true,
    kSequenceClassNote,
    [](const JudgeShape& shape) { return std::unique_ptr<Judge>(new SequenceClasses(shape)); }};

}  // namespace bascule
