// SPDX-License-Identifier: Apache-2.0
#include "src/report/report.h"

namespace bascule {

const EvaluationRecord* last_evaluation(const Report& report, Split split) {
  const EvaluationRecord* last = nullptr;
  for (const EvaluationRecord& record : report.evaluations) {
    if (record.split == split) last = &record;
  }
  return last;
}

}  // namespace bascule
