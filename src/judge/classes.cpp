// SPDX-License-Identifier: Apache-2.0
// Judges a classifier of pictures: the share of rows whose class has the largest logit, or one of the five largest.
#include <algorithm>

#include "src/judge/classified_rows.h"
#include "src/judge/judges.h"
#include "src/judge/shared_metrics.h"

namespace bascule {
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
const JudgeKind kClasses = {
    "classes", {kClassMetrics, std::size(kClassMetrics)}, true, "", [](const JudgeShape& shape) {
      return std::unique_ptr<Judge>(new Classes(shape));
    }};

}  // namespace bascule
