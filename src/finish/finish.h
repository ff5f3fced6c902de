// SPDX-License-Identifier: Apache-2.0
// The last phase: what the run kept is made into the model folder, embeddings, result files, model card and
// report.html. After replay: allocates, throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/report.h"
#include "src/base/batch.h"
#include "src/finish/contracts.h"
#include "src/record/recorded_run.h"
#include "src/seal/sealed_run.h"

namespace bascule {

// Samples that were skipped because their picture is bad: in training another row was taken in place of each, in an
// evaluation it was left out. None goes unsaid. After the last step.

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

// figures: those of several ranks summed, but for allocations by libraries, which are this process's.
Report make_report(SealedRun& sealed, const SealedFigures& figures, const std::vector<SkippedSamples>& skipped);

// Writes the judge's results of the split that was evaluated last: its file in output_dir, and examples in the report.
// Removes such files of an earlier run that this one does not write again.
void write_judged(SealedRun& sealed, Report* report);

// Everything else into output_dir.
void write_run_folder(SealedRun& sealed, const Report& report);

}  // namespace bascule
