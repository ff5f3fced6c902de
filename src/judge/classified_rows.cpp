// SPDX-License-Identifier: Apache-2.0
// Judges a classifier of rows, whatever they are: the share of rows whose class has the largest logit. Leaves
// predictions.jsonl, and examples in the report.
#include <algorithm>
#include <cstdint>

#include "src/base/nearest.h"
#include "src/judge/examples.h"
#include "src/judge/judge.h"
#include "src/judge/statistics.h"

namespace bascule {

class ClassifiedRows : public Judge {
 public:
  ClassifiedRows(const JudgeShape& shape, TextKeys keys);

  const char* file() const override { return kPredictionsFile; }
  std::int64_t file_bytes(std::int64_t of_manifest) const override;
  void write_files(const JudgedFiles& files, Report* report) const override;

 protected:
  void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept override;

  std::int64_t classes() const { return classes_; }
  const std::int32_t* labels_of(const Batch& batch) const { return batch.field<std::int32_t>(label_field_); }
  const float* logits_of(std::int64_t sample) const { return logits_ + sample * classes_; }

 private:
  const TextKeys keys_;
  const int label_field_;
  const std::int64_t classes_;
  const std::int32_t* hits_ = nullptr;  // (samples), 1 where the largest logit is the label's
  const float* logits_ = nullptr;       // (samples, classes)
  std::int32_t* labels_ = nullptr;      // by row
  ClassPrediction* best_ = nullptr;     // by row, five, or all classes where there are fewer
};

namespace {

constexpr std::int64_t kBest = kMostPredicted;
// Bytes of a class with its name and probability, in predictions.jsonl.
constexpr std::int64_t kClassBytes = 160;

}  // namespace

ClassifiedRows::ClassifiedRows(const JudgeShape& shape, TextKeys keys)
    : Judge(shape), keys_(keys), label_field_(field_number("labels")), classes_(output("logits").cols) {
  read(&hits_, "hits");
  read(&logits_, "logits");
  plan(Part::kPredictions, &labels_, shape.predicted_rows);
  plan(Part::kPredictions, &best_, shape.predicted_rows * kBest);
}

std::int64_t ClassifiedRows::file_bytes(std::int64_t of_manifest) const {
  return predictions_bytes(of_manifest, shape().predicted_rows, kBest * kClassBytes);
}

void ClassifiedRows::write_files(const JudgedFiles& files, Report* report) const {
  if (!keeps_predictions()) return;
  const auto add_name = [&](JsonStream& out, const char* key, std::int32_t id) {
    const auto at = static_cast<std::size_t>(id);
    if (at < files.classes.size()) out.key(key).string(files.classes[at]);
  };
  write_predictions(
      files, rows(), nullptr,
      [&](JsonStream& out, std::int64_t, std::int64_t row) {
        if (!files.manifest.is_unlabelled()) {
          out.key("label").integer(labels_[row]);
          add_name(out, "label_name", labels_[row]);
        }
        out.key("predicted").begin_array();
        for (std::int64_t i = 0; i < std::min(kBest, classes_); ++i) {
          const ClassPrediction& best = best_[row * kBest + i];
          out.begin_object();
          out.key("class").integer(best.id);
          add_name(out, "class_name", best.id);
          out.key("probability").number(static_cast<double>(best.probability));
          out.end_object();
        }
        out.end_array();
      },
      keys_);
  if (files.manifest.is_unlabelled()) return;
  add_class_examples(report, {rows(), labels_, best_, kBest, std::min(kBest, classes_)}, files.manifest, files.classes);
}

void ClassifiedRows::take_rows(const Batch& batch, const Manifest&, Sums* sums) noexcept {
  sums->right = static_cast<double>(std::count(hits_, hits_ + batch.counts.samples(), 1));
  if (!keeps_predictions()) return;
  for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
    const std::int64_t row = batch.rows[s];
    labels_[row] = labels_of(batch)[s];
    predict_classes(logits_of(s), classes_, best_ + row * kBest, kBest);
  }
}

// Judges a classifier of pictures: the share of rows whose class has the largest logit, or one of the five largest.

namespace {

constexpr Metric kTop5Accuracy = {"top5_accuracy", "accuracy among the five best", 7, true, false, 2, 2};
constexpr Metric kClassMetrics[] = {kAccuracy, kTop5Accuracy};

class Classes final : public ClassifiedRows {
 public:
  explicit Classes(const JudgeShape& shape) : ClassifiedRows(shape, {}) {
    plan(Part::kRows, &is_among_best_, shape.max_rows);
  }

 protected:
  void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept override {
    ClassifiedRows::take_rows(batch, manifest, sums);
    const std::int32_t* const labels = labels_of(batch);
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      const float* const logits = logits_of(s);
      // Logits as large as the label's are taken to come before it; of NaN too.
      const float own = logits[labels[s]];
      const std::int64_t rank = std::count_if(logits, logits + classes(), [own](float x) { return !(x < own); });
      is_among_best_[batch.rows[s]] = rank <= 5 ? 1 : 0;
    }
  }

  void move_row(std::int64_t to, std::int64_t from) noexcept override { is_among_best_[to] = is_among_best_[from]; }

  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    (*record)[kAccuracy] = sums->share_right();
    const std::int64_t among = std::count(is_among_best_, is_among_best_ + record->samples, 1);
    (*record)[kTop5Accuracy] = static_cast<double>(among) / static_cast<double>(record->samples);
  }

 private:
  std::uint8_t* is_among_best_ = nullptr;  // by row
};

}  // namespace

extern const JudgeKind kClasses;
const JudgeKind kClasses = judge_kind<Classes>("classes", kClassMetrics, true);

// Judges a classifier of texts: the figures of run_glue.py, and the mean of F1 over the classes.

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
const JudgeKind kSequenceClasses =
    judge_kind<SequenceClasses>("sequence_classes", kSequenceClassMetrics, true, kSequenceClassNote);

}  // namespace bascule
