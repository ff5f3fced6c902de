// SPDX-License-Identifier: Apache-2.0
// Judges a classifier of rows, whatever they are: the share of rows whose class has the largest logit. Leaves
// predictions.jsonl, and examples in the report.
#pragma once

#include <cstdint>

#include "src/judge/examples.h"
#include "src/judge/judge.h"
#include "src/judge/predictions.h"

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

}  // namespace bascule
