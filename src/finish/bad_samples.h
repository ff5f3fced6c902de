// SPDX-License-Identifier: Apache-2.0
// Samples that were skipped because their picture is bad: in training another row was taken in place of each, in an
// evaluation it was left out. None goes unsaid. After the last step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/report.h"
#include "src/loader/stream.h"
#include "src/record/recorded_run.h"

namespace bascule {

class Group;
class SealedRun;

// The samples of one split that any rank skipped.
struct SkippedSamples {
  const RecordedSplit* split = nullptr;
  std::vector<ReplacedSample> listed;
  std::int64_t count = 0;      // may be more: the list has an end
  std::int64_t list_room = 0;  // of the list
};

// All ranks call it together; rank 0 gets the answer.
std::vector<SkippedSamples> gather_skipped(SealedRun& sealed, Group& group);
// Lists them in the report, whose evaluations are there already, and in a table of it.
void add_bad_samples(Report* report, const std::vector<SkippedSamples>& skipped);
// One line for standard error; empty where nothing was skipped.
std::string bad_samples_note(const Report& report);

}  // namespace bascule
