// SPDX-License-Identifier: Apache-2.0
// Finds what differs from a run's record: program, libraries, settings, model, rows, pictures, results. Compares
// without running anything. Not sealed.
#pragma once

#include <string>
#include <vector>

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
  std::vector<std::string> changes;  // of settings while it ran: "after update 8: training.max_steps from 8 to 13"
};

// path: a finished run's folder, or its bascule.json. Throws Error{kData} where there is no record of a finished run.
RecordedFolder open_record(const std::string& path);

// In the order above.
std::vector<Difference> check_record(const RecordedFolder& recorded);

// Throws Error kData where the list of a run's pictures is not the recorded one any more, so that none can be compared
// with it.
void check_picture_log(const RecordedFolder& recorded);

}  // namespace bascule
