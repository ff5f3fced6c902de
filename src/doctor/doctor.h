// SPDX-License-Identifier: Apache-2.0
// `bascule doctor`, its checks of labels and prompts, and the cost of training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/bringup/bring_up.h"
#include "src/bringup/machine_limits.h"
#include "src/doctor/data.h"
#include "src/machine/process_limits.h"

namespace bascule {

// `bascule doctor`: looks at the data of a run before a week of training does. Reads every row and every picture, and
// writes nothing but the index of large data into the cache. Before the seal.
//
// Memory beside the index of the data: at most 64 bytes a row for each of its texts, and 474 bytes a picture; and the
// examples.

struct DoctorOptions {
  const BringUp* profile = nullptr;  // of the machine that the run is meant for; null: this one, and no time is said
  std::string profile_path;          // for messages
  std::size_t most_examples = kMostExamples;
};

// exit_code of the result: 0; 3 where the data would stop training; 4 where the run does not fit. Throws Error
// kSettings for settings that no run accepts, kData for a model that cannot be opened.
Diagnosis diagnose(const Settings& settings, const DoctorOptions& options);

// Whether the rows of a split have labels of their own, which the model reads.
bool has_own_labels(const RecordedSplit& split);

// Fills classes or values of the split's figures.
void count_labels(const RecordedSplit& split, const ModelInputs& model, SplitFigures* figures);

// How many rows each class has, which classes a split lacks, equal samples with different labels. figures, samples: by
// split; the digest of all that the model reads of a row but its label.
void find_in_labels(const OpenedData& opened, const std::vector<SplitFigures>& figures,
                    const std::vector<RowDigests>& samples, std::vector<Finding>* findings);

// The prompts of a run that draws: those that are cut, are equal or are empty. Without a profile the memory of this
// machine counts. Throws Error for settings and a pipeline that cannot be opened; a run that cannot be recorded is a
// finding.
void diagnose_prompts(const Settings& settings, const DoctorOptions& options, Diagnosis* diagnosis);

// The cost of training: memory, the largest batch that fits, and, by the figures of a bring-up, the time of an
// epoch.
//
// An update is computed at the limits of the machine: each operation of a mean batch takes its arithmetic at the rate
// of matrix products or its memory traffic at that of a copy, whichever is longer, and a step as a whole reaches
// kReached of that. The loader's work is what reading and decoding took here; its threads take it from the cores that
// compute. An epoch is training alone: no evaluation, no saving.

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

// profile: null: of this machine, and no time is said. too_large: set where the run does not fit. Throws Error.
TimeFigures time_figures(RecordedRun& run, const MeanSample& sample, const BringUp* profile, const std::string& path,
                         std::optional<Error>* too_large);

}  // namespace bascule
