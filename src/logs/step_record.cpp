// SPDX-License-Identifier: Apache-2.0
#include "src/logs/step_record.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "src/base/error.h"

namespace bascule {

const char* step_phase_name(StepPhase phase) noexcept {
  constexpr const char* kNames[] = {"waiting for data", "forward", "backward", "reduction", "update"};
  return kNames[static_cast<int>(phase)];
}

const char* split_name(Split split) noexcept {
  constexpr const char* kNames[] = {"train", "validation", "test"};
  return kNames[static_cast<int>(split)];
}

ShortText readable_metric(const Metric& metric, double value) noexcept {
  return metric.is_fraction ? readable_percent(value) : readable_number(value);
}

EvaluationRecord::EvaluationRecord() noexcept {
  for (double& value : metric) value = std::numeric_limits<double>::quiet_NaN();
}

void StepTotals::add(const StepRecord& record) noexcept {
  steps += record.steps;
  samples += record.samples;
  wall_seconds += record.wall_seconds;
  for (int phase = 0; phase < kStepPhases; ++phase) seconds[phase] += record.seconds[phase];
}

std::size_t planned_records(std::int64_t max_steps, std::int64_t interval, std::size_t limit) noexcept {
  const std::int64_t steps = std::max<std::int64_t>(max_steps, 0);
  const std::int64_t regular = interval > 0 ? steps / interval : 0;
  const std::size_t wanted = std::min(static_cast<std::size_t>(regular) + 2, std::max<std::size_t>(limit, 2));
  // Even, so that the record after a thinning falls on the new stride.
  return wanted - wanted % 2;
}

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
