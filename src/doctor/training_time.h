// SPDX-License-Identifier: Apache-2.0
// The cost of training: memory, the largest batch that fits, and, by the figures of a bring-up, the time of an
// epoch.
//
// An update is computed at the limits of the machine: each operation of a mean batch takes its arithmetic at the rate
// of matrix products or its memory traffic at that of a copy, whichever is longer, and a step as a whole reaches
// kReached of that. The loader's work is what reading and decoding took here; its threads take it from the cores that
// compute. An epoch is training alone: no evaluation, no saving.
#pragma once

#include <optional>
#include <string>

#include "src/base/error.h"
#include "src/bringup/bring_up.h"
#include "src/bringup/machine_limits.h"
#include "src/doctor/finding.h"
#include "src/machine/process_limits.h"
#include "src/record/recorded_run.h"

namespace bascule {

// The share of its ceiling (`bascule bench`) that a step of a model of base size reaches: 81 to 92 % in
// tools/figures/README.md.
inline constexpr double kReached = 0.88;

// A mean sample of the training data.
struct MeanSample {
  double tokens[kMaxTexts] = {};  // that the model reads of each of its texts
  double loading_seconds = 0.0;   // of one core
};

// The limits that a profile says for its machine. Throws Error kData where it lacks the figures. path: for messages.
MachineLimits limits_of_profile(const BringUp& profile, bool in_bf16, const std::string& path);

// Limits of a process on the profile's machine, as far as the profile knows them; without a profile, on this one.
ProcessLimits limits_of_machine(const BringUp* profile);

// Rows of a mean batch of the training graph.
BatchCounts mean_batch(const RecordedRun& run, const MeanSample& sample);

// profile: null: of this machine, and no time is said. too_large: set where the run does not fit. Throws Error.
TimeFigures time_figures(RecordedRun& run, const MeanSample& sample, const BringUp* profile, const std::string& path,
                         std::optional<Error>* too_large);

}  // namespace bascule
