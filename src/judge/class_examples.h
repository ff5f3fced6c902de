// SPDX-License-Identifier: Apache-2.0
// A classifier's rows for report.html: the accuracy of each class, the most frequent confusions, and pictures, or the
// texts that it was surest of and wrong. Finish phase.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/report.h"
#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/judge/class_predictions.h"

namespace bascule {

struct JudgedClasses {
  Span<const std::int32_t> rows;          // the manifest rows that were judged
  const std::int32_t* labels = nullptr;   // by manifest row
  const ClassPrediction* best = nullptr;  // by manifest row, best first
  std::int64_t stride = 0;                // of `best`
  std::int64_t shown = 0;                 // how many of them there are
};

// names: of the classes, by number; empty: they are called by their numbers.
void add_class_examples(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                        const std::vector<std::string>& names);

}  // namespace bascule
