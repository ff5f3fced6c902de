// SPDX-License-Identifier: Apache-2.0
#include "src/judge/classified_rows.h"

#include <algorithm>

namespace bascule {
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

}  // namespace bascule
