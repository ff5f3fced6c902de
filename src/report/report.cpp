// SPDX-License-Identifier: Apache-2.0
#include "src/report/report.h"

namespace bascule {

const EvaluationRecord* last_evaluation(const Report& report, Split split) {
  const EvaluationRecord* last = nullptr;
  for (const auto* records : {&report.evaluations, &report.repeated}) {
    for (const EvaluationRecord& record : *records) {
      if (record.split == split) last = &record;
    }
  }
  return last;
}

std::string skipped_text(const SplitRows& split) {
  const auto counted = [](std::int64_t count, const char* noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
  };
  const std::string name = std::string(split_name(split.split)) + ": ";
  if (split.judged >= 0)
    return name + counted(split.skipped, "row") + " left out, " + std::to_string(split.judged) + " judged";
  return name + (split.list_is_full ? "at least " : "") + counted(split.skipped_rows, "row") + " skipped, " +
         counted(split.skipped, "time") + " in all, another row in place of each";
}

}  // namespace bascule
