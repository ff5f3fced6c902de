// SPDX-License-Identifier: Apache-2.0
#include "src/judge/evaluation_figure.h"

#include <vector>

#include "src/base/messages.h"

namespace bascule {
namespace {

bool may_be_best(const Metric& metric, std::size_t classes) {
  return metric.has_best && (metric.classes == 0 || static_cast<std::size_t>(metric.classes) == classes);
}

}  // namespace

std::string_view figure_name(std::string_view name) {
  for (const std::string_view prefix : {"eval_", "validation_"}) {
    if (name.substr(0, prefix.size()) == prefix) return name.substr(prefix.size());
  }
  return name;
}

std::optional<EvaluationFigure> EvaluationFigure::named(std::string_view name, Metrics metrics, std::size_t classes) {
  name = figure_name(name);
  EvaluationFigure figure;
  if (name == "loss") return figure;
  for (const Metric& metric : metrics) {
    if (name != metric.key || !may_be_best(metric, classes)) continue;
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

std::string EvaluationFigure::names_of(Metrics metrics, std::size_t classes) {
  std::vector<std::string> names = {"loss"};
  for (const Metric& metric : metrics) {
    if (may_be_best(metric, classes)) names.emplace_back(metric.key);
  }
  return or_list(names);
}

}  // namespace bascule
