// SPDX-License-Identifier: Apache-2.0
// The figures of a record under the keys that log.jsonl and MLflow have for them. noexcept, allocates nothing.
#pragma once

#include <cmath>
#include <cstdio>

#include "src/logs/metric.h"
#include "src/logs/step_record.h"

namespace bascule {

// visit(key, value): a double or an integer. The key lives until visit() returns.
template <typename Visit>
void visit_figures(const StepRecord& record, const Visit& visit) noexcept {
  visit("epoch", record.epoch);
  visit("loss", record.loss);
  visit("grad_norm", record.grad_norm);
  visit("learning_rate", record.learning_rate);
  visit("samples_per_second", record.samples_per_second);
}

template <typename Visit>
void visit_figures(const EvaluationRecord& record, Metrics metrics, const Visit& visit) noexcept {
  const char* const prefix = figure_prefix(record.split, record.averaged != 0);
  char key[64];
  const auto named = [&](const char* name) {
    std::snprintf(key, sizeof key, "%s_%s", prefix, name);
    return key;
  };
  visit("epoch", record.epoch);
  if (!std::isnan(record.loss)) visit(named("loss"), record.loss);  // NaN: nothing had a label
  visit(named("runtime"), record.seconds);
  visit(named("samples"), record.samples);
  for (const Metric& metric : metrics) {
    if (!std::isnan(record[metric])) visit(named(metric.key), record[metric]);
  }
}

}  // namespace bascule
