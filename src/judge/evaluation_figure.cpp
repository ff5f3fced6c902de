// SPDX-License-Identifier: Apache-2.0
#include "src/judge/evaluation_figure.h"

#include <cstddef>

namespace bascule {

std::string_view figure_name(std::string_view name) {
  for (const std::string_view prefix : {"eval_", "validation_"}) {
    if (name.substr(0, prefix.size()) == prefix) return name.substr(prefix.size());
  }
  return name;
}

std::optional<EvaluationFigure> EvaluationFigure::named(std::string_view name, Metrics metrics) {
  name = figure_name(name);
  EvaluationFigure figure;
  if (name == "loss") return figure;
  for (const Metric& metric : metrics) {
    if (name != metric.key) continue;
    figure.metric_ = &metric;
    return figure;
  }
  return std::nullopt;
}

EvaluationFigure EvaluationFigure::numbered(int number, Metrics metrics) {
  EvaluationFigure figure;
  for (const Metric& metric : metrics) {
    if (metric.slot + 1 == number) figure.metric_ = &metric;
  }
  return figure;
}

std::string EvaluationFigure::names_of(Metrics metrics) {
  std::string names = "loss";
  for (std::size_t i = 0; i < metrics.size(); ++i)
    names += std::string(i + 1 < metrics.size() ? ", " : " or ") + metrics[i].key;
  return names;
}

}  // namespace bascule
