// SPDX-License-Identifier: Apache-2.0
// A figure that an evaluation gives beside the loss. A judge lists its own (src/judge); reports walk that list and know
// none of them by name.
#pragma once

#include "src/base/span.h"

namespace bascule {

struct Metric {
  const char* key;    // in result files after "eval_"
  const char* title;  // for people
  int slot;           // of EvaluationRecord::metric; part of what checkpoints hold, so it never changes;
                      // below kMetricSlots, different from those of the same judge
  bool is_fraction;   // shown in percent
  bool smaller_is_better = false;
  // The place among the figures at the head of report.html and among the curves beside the loss, from 1; 0: not there.
  int headline = 0, curve = 0;
  bool is_of_generated = false;  // there only where texts are generated
  bool has_best = true;          // false: a fact, of which neither more nor less is better
  int classes = 0;               // there only where the model has so many; 0: always
};
using Metrics = Span<const Metric>;

}  // namespace bascule
