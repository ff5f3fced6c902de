// SPDX-License-Identifier: Apache-2.0
// One figure of an evaluation, chosen by its name in the result files. Before the seal, but for reading the figure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/models/bridgetower.h"
#include "src/report/step_record.h"

namespace bascule {

class EvaluationFigure {
 public:
  // "loss", "eval_loss" and "validation_loss" are the same. Nothing where an evaluation of the head has no such figure.
  static std::optional<EvaluationFigure> named(std::string_view name, ModelHead head);
  // "loss, accuracy or auc".
  static std::string names_of(ModelHead head);

  const char* name() const noexcept;
  double of(const EvaluationRecord& record) const noexcept;
  // By its number().
  static EvaluationFigure numbered(int number);
  // Differs from figure to figure; the same in every program.
  int number() const noexcept { return metric_ ? static_cast<int>(*metric_) + 1 : 0; }

 private:
  std::optional<Metric> metric_;  // none: the loss
};

}  // namespace bascule
