// SPDX-License-Identifier: Apache-2.0
// Judges a classifier of rows: the share of rows whose class has the largest logit, or one of the five largest. Leaves
// predictions.jsonl, and examples in the report.
#include <algorithm>

#include "src/base/elementary.h"
#include "src/base/largest.h"
#include "src/judge/class_examples.h"
#include "src/judge/judges.h"
#include "src/judge/predictions.h"

namespace bascule {
namespace {

constexpr Metric kAccuracy = {"accuracy", "accuracy", 6, true, false, 1, 1};
constexpr Metric kTop5Accuracy = {"top5_accuracy", "accuracy among the five best", 7, true, false, 2, 2};
constexpr Metric kMetrics[] = {kAccuracy, kTop5Accuracy};

constexpr std::int64_t kBest = 5;
// Bytes of a class with its name and probability, in predictions.jsonl.
constexpr std::int64_t kClassBytes = 160;

class Classes final : public Judge {
 public:
  explicit Classes(const JudgeShape& shape)
      : Judge(shape), label_field_(field_number("labels")), classes_(output("logits").cols) {
    read(&hits_, "hits");
    read(&logits_, "logits");
    plan(Part::kRows, &is_among_best_, shape.max_rows);
    plan(Part::kPredictions, &labels_, shape.predicted_rows);
    plan(Part::kPredictions, &best_, shape.predicted_rows * kBest);
  }

  const char* file() const override { return kPredictionsFile; }
  std::int64_t file_bytes(std::int64_t of_manifest) const override {
    return predictions_bytes(of_manifest, shape().predicted_rows, kBest * kClassBytes);
  }

  void write_files(const JudgedFiles& files, Report* report) const override {
    if (!keeps_predictions()) return;
    const auto add_name = [&](JsonStream& out, const char* key, std::int32_t id) {
      const auto at = static_cast<std::size_t>(id);
      if (at < files.classes.size()) out.key(key).string(files.classes[at]);
    };
    write_predictions(files, rows(), nullptr, [&](JsonStream& out, std::int64_t, std::int64_t row) {
      out.key("label").integer(labels_[row]);
      add_name(out, "label_name", labels_[row]);
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
    });
    add_class_examples(report, {rows(), labels_, best_, kBest, std::min(kBest, classes_)}, files.manifest,
                       files.classes);
  }

 protected:
  void take_rows(const Batch& batch, const Manifest&, Sums* sums) noexcept override {
    const std::int32_t* const labels = batch.field<std::int32_t>(label_field_);
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      const std::int64_t row = batch.rows[s];
      const float* const logits = logits_ + s * classes_;
      // Logits as large as the label's are taken to come before it; of NaN too.
      const float own = logits[labels[s]];
      const std::int64_t rank = std::count_if(logits, logits + classes_, [own](float x) { return !(x < own); });
      is_among_best_[row] = rank <= kBest ? 1 : 0;
      if (!keeps_predictions()) continue;
      labels_[row] = labels[s];
      take_best(logits, best_ + row * kBest);
    }
    sums->right = static_cast<double>(std::count(hits_, hits_ + batch.counts.samples(), 1));
  }

  void move_row(std::int64_t to, std::int64_t from) noexcept override { is_among_best_[to] = is_among_best_[from]; }

  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    (*record)[kAccuracy] = sums->share_right();
    const std::int64_t among = std::count(is_among_best_, is_among_best_ + record->samples, 1);
    (*record)[kTop5Accuracy] = static_cast<double>(among) / static_cast<double>(record->samples);
  }

 private:
  void take_best(const float* logits, ClassPrediction* best) const noexcept {
    std::int32_t places[kBest];
    const std::int64_t count = places_of_largest(logits, classes_, places, kBest);
    double sum = 0.0;
    const double top = static_cast<double>(logits[places[0]]);
    for (std::int64_t c = 0; c < classes_; ++c) sum += fixed_exp(static_cast<double>(logits[c]) - top);
    for (std::int64_t i = 0; i < count; ++i) {
      best[i] = {places[i], static_cast<float>(fixed_exp(static_cast<double>(logits[places[i]]) - top) / sum)};
    }
  }

  const int label_field_;
  const std::int64_t classes_;
  const std::int32_t* hits_ = nullptr;     // (samples), 1 where the largest logit is the label's
  const float* logits_ = nullptr;          // (samples, classes)
  std::uint8_t* is_among_best_ = nullptr;  // by row
  std::int32_t* labels_ = nullptr;         // by row
  ClassPrediction* best_ = nullptr;        // by row, kBest each, or all classes where there are fewer
};

}  // namespace

extern const JudgeKind kClasses;
const JudgeKind kClasses = {"classes", {kMetrics, std::size(kMetrics)}, true, "", [](const JudgeShape& shape) {
                              return std::unique_ptr<Judge>(new Classes(shape));
                            }};

}  // namespace bascule
