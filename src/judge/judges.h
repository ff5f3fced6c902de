// SPDX-License-Identifier: Apache-2.0
// The judges by name. A model names the one that judges it (models/families.h).
#pragma once

#include <memory>
#include <string_view>

#include "src/judge/judge.h"
#include "src/logs/metric.h"

namespace bascule {

struct JudgeKind {
  const char* name;
  Metrics metrics;
  // Whether it can keep something of each row of the test file; then the model is recorded with its predictions.
  bool predicts;
  const char* note;  // Markdown for the model card: how a metric is defined; may be empty
  std::unique_ptr<Judge> (*make)(const JudgeShape& shape);
};

// A name that no judge has is a mistake in the family that names it.
const JudgeKind& judge_named(std::string_view name);

// A judge from outside src/: before main's command runs. The kind is kept by reference.
void add_judge(const JudgeKind& kind);

}  // namespace bascule
