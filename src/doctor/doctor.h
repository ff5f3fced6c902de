// SPDX-License-Identifier: Apache-2.0
// `bascule doctor`, and its checks of labels and prompts.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/bring_up.h"
#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"
#include "src/settings/settings.h"

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

// The labels of the splits: how many rows each class has, which classes a split lacks, equal samples with different
// labels.

// Whether the rows of a split have labels of their own, which the model reads.
bool has_own_labels(const RecordedSplit& split);

// Fills classes or values of the split's figures.
void count_labels(const RecordedSplit& split, const ModelInputs& model, SplitFigures* figures);

// figures, samples: by split; the digest of all that the model reads of a row but its label.
void find_in_labels(const OpenedData& opened, const std::vector<SplitFigures>& figures,
                    const std::vector<RowDigests>& samples, std::vector<Finding>* findings);

// The prompts of a run that draws: those that are cut, are equal or are empty. Before the seal.

// Without a profile the memory of this machine counts.
// Throws Error for settings and a pipeline that cannot be opened; a run that cannot be recorded is a finding.
void diagnose_prompts(const Settings& settings, const DoctorOptions& options, Diagnosis* diagnosis);

}  // namespace bascule
