// SPDX-License-Identifier: Apache-2.0
// Finds what differs from a run's record: program, libraries, settings, model, rows, pictures, results. Compares
// without running anything. Not sealed.
#pragma once

#include <string>
#include <vector>

#include "src/record/recorded_run.h"
#include "src/reproduce/run_record.h"
#include "src/settings/settings.h"

namespace bascule {

// How a run of now compares with the recorded one.
enum class Promise {
  kNothing,  // it has another input
  kFigures,  // it computes the same, not always to the same bits
  kBits,
};

struct Difference {
  std::string what;  // "library /usr/lib/libm.so.6: its content differs"
  Promise promise = Promise::kNothing;
};

struct RecordedFolder {
  std::string folder;
  Settings settings;  // of the recorded run, with absolute paths
  Settings written;   // the same as they were written, paths not resolved
  RunRecord record;
  bool draws() const { return settings.draw.is_given; }
  std::vector<std::string> changes;     // of settings while it ran: "after update 8: training.max_steps from 8 to 13"
  Promise of_changes = Promise::kBits;  // in spite of them: a repetition has the last settings from its first update on
};

// path: a finished run's folder, or its bascule.json. Throws Error{kData} where there is no record of a finished run.
RecordedFolder open_record(const std::string& path);

// By rank 0, before a finished run is evaluated again. Throws Error kData where its weights, or their average, are not
// those of its record, or a checkpoint that they come from does not have its checksums. Files that are missing, and
// records of before there were any, are left to others.
void check_finished_weights(const std::string& output_dir, const FinishedWeights& finished);

// In the order above.
std::vector<Difference> check_record(const RecordedFolder& recorded);

// Throws Error kData where the list of a run's pictures is not the recorded one any more, so that none can be compared
// with it.
void check_picture_log(const RecordedFolder& recorded);

}  // namespace bascule
