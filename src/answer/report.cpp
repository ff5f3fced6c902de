// SPDX-License-Identifier: Apache-2.0
#include "src/answer/report.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/messages.h"

namespace bascule {
namespace {

// Whether two evaluations have the same weights and the same result.
bool is_same(const EvaluationRecord& a, const EvaluationRecord& b) {
  // Compares bits: two figures that could not be computed are both NaN, and count as the same.
  return a.global_step == b.global_step && a.samples == b.samples &&
         std::memcmp(&a.loss, &b.loss, sizeof a.loss) == 0 &&
         std::memcmp(a.metric, b.metric, sizeof a.metric) == 0;  // NOLINT(bugprone-suspicious-memory-comparison)
}

}  // namespace

void set_evaluations(Report* report, Span<const EvaluationRecord> curve, std::vector<EvaluationRecord> final_ones) {
  std::vector<EvaluationRecord>& all = report->evaluations;
  all.assign(curve.begin(), curve.end());
  for (const EvaluationRecord& last : final_ones) {
    if (last.split == Split::kTest) {
      all.push_back(last);
    } else if (std::none_of(curve.begin(), curve.end(), [&](const auto& kept) { return is_same(kept, last); })) {
      const auto later =
          std::find_if(all.begin(), all.end(), [&](const auto& kept) { return kept.global_step > last.global_step; });
      all.insert(later, last);
    }
  }
  report->final_evaluations = std::move(final_ones);
}

const EvaluationRecord* last_evaluation(const Report& report, Split split) {
  const EvaluationRecord* last = nullptr;
  for (const auto* records : {&report.evaluations, &report.final_evaluations}) {
    for (const EvaluationRecord& record : *records) {
      if (record.split == split) last = &record;
    }
  }
  return last;
}

const EvaluationRecord* averaged_evaluation(const Report& report, Split split) {
  for (const EvaluationRecord& record : report.averaged_evaluations) {
    if (record.split == split) return &record;
  }
  return nullptr;
}

std::string skipped_text(const SplitRows& split) {
  const std::string name = std::string(split_name(split.split)) + ": ";
  if (split.judged >= 0)
    return name + count_of(split.skipped, "row") + " skipped, " + std::to_string(split.judged) + " evaluated";
  return name + (split.list_is_full ? "at least " : "") + count_of(split.skipped_rows, "row") + " skipped, " +
         count_of(split.skipped, "time") + " in total, each replaced by another row";
}

}  // namespace bascule
