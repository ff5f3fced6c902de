// SPDX-License-Identifier: Apache-2.0
#include "src/train/evaluation_figure.h"

#include <cstddef>
#include <vector>

namespace bascule {
namespace {

std::vector<Metric> metrics_of(ModelHead head) {
  switch (head) {
    case ModelHead::kContrastive:
      return {Metric::kImageToTextRecall1, Metric::kImageToTextRecall5, Metric::kImageToTextRecall10,
              Metric::kTextToImageRecall1, Metric::kTextToImageRecall5, Metric::kTextToImageRecall10};
    case ModelHead::kImageTextMatching: return {Metric::kAccuracy, Metric::kAreaUnderCurve};
    case ModelHead::kMaskedLm: return {Metric::kAccuracy, Metric::kPerplexity};
    default: return {};
  }
}

}  // namespace

std::optional<EvaluationFigure> EvaluationFigure::named(std::string_view name, ModelHead head) {
  for (const std::string_view prefix : {"eval_", "validation_"}) {
    if (name.substr(0, prefix.size()) != prefix) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  EvaluationFigure figure;
  if (name == "loss") return figure;
  for (const Metric metric : metrics_of(head)) {
    if (name != metric_key(metric)) continue;
    figure.metric_ = metric;
    return figure;
  }
  return std::nullopt;
}

EvaluationFigure EvaluationFigure::numbered(int number) {
  EvaluationFigure figure;
  if (number > 0 && number <= kMetrics) figure.metric_ = static_cast<Metric>(number - 1);
  return figure;
}

std::string EvaluationFigure::names_of(ModelHead head) {
  std::string names = "loss";
  const std::vector<Metric> metrics = metrics_of(head);
  for (std::size_t i = 0; i < metrics.size(); ++i)
    names += std::string(i + 1 < metrics.size() ? ", " : " or ") + metric_key(metrics[i]);
  return names;
}

const char* EvaluationFigure::name() const noexcept { return metric_ ? metric_key(*metric_) : "loss"; }

double EvaluationFigure::of(const EvaluationRecord& record) const noexcept {
  return metric_ ? record[*metric_] : record.loss;
}

}  // namespace bascule
