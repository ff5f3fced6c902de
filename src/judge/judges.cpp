// SPDX-License-Identifier: Apache-2.0
#include "src/judge/judges.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"

namespace bascule {

extern const JudgeKind kContrastiveRetrieval, kMatching, kMaskedTokens, kClasses, kPretraining, kTargetTokens,
    kSequenceClasses, kSequenceValues, kTokenTags;  // each in its own file

namespace {

std::vector<const JudgeKind*>& judges() {
  static std::vector<const JudgeKind*> all = {
      &kContrastiveRetrieval, &kMatching,        &kMaskedTokens,   &kClasses,  &kPretraining,
      &kTargetTokens,         &kSequenceClasses, &kSequenceValues, &kTokenTags};
  return all;
}

}  // namespace

const JudgeKind& judge_named(std::string_view name) {
  const auto found =
      std::find_if(judges().begin(), judges().end(), [&](const JudgeKind* kind) { return kind->name == name; });
  BASCULE_CHECK(found != judges().end());
  for (const Metric& metric : (*found)->metrics) BASCULE_CHECK(metric.slot >= 0 && metric.slot < kMetricSlots);
  return **found;
}

void add_judge(const JudgeKind& kind) { judges().push_back(&kind); }

}  // namespace bascule
