// SPDX-License-Identifier: Apache-2.0
// One figure of an evaluation, chosen by its name in the result files: the loss, or a metric of the judge. Before the
// seal, but for reading the figure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/logs/step_record.h"

namespace bascule {

// Without the split that it may be written with: "loss" of "eval_loss" and of "validation_loss".
std::string_view figure_name(std::string_view name);

class EvaluationFigure {
 public:
  // One that has a best. "loss", "eval_loss" and "validation_loss" are the same. Nothing where the judge has no such
  // figure of so many classes. The metrics must outlive it.
  static std::optional<EvaluationFigure> named(std::string_view name, Metrics metrics, std::size_t classes = 0);
  // "loss, accuracy or auc": those that named() finds.
  static std::string names_of(Metrics metrics, std::size_t classes = 0);

  const char* name() const noexcept { return metric_ != nullptr ? metric_->key : "loss"; }
  bool is_of_generated() const noexcept { return metric_ != nullptr && metric_->is_of_generated; }
  double of(const EvaluationRecord& record) const noexcept {
    return metric_ != nullptr ? record[*metric_] : record.loss;
  }
  // By its number(); the loss where no metric has it.
  static EvaluationFigure numbered(int number, Metrics metrics);
  // Checkpoints hold it, so it stays the same from version to version. The figures of one judge have different numbers.
  int number() const noexcept { return metric_ != nullptr ? metric_->slot + 1 : 0; }

 private:
  const Metric* metric_ = nullptr;  // null: the loss
};

}  // namespace bascule
