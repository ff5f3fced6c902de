// SPDX-License-Identifier: Apache-2.0
// When a run evaluates, saves and stops, and which evaluation is the best, from the settings; and what a checkpoint's
// search for the best means for them. Before the seal.
#pragma once

#include "src/record/recorded_run.h"

namespace bascule {

// Fills pace->control and pace->best_figure, and for a run that resumes from a checkpoint resume->is_over and
// resume->searches_anew, with a note of each; a run in output_dir that was ended early ends there again. Throws
// Error{kSettings} for a figure that the head does not have.
void plan_control(const TrainingSettings& training, const std::string& output_dir, const SettingsOrigin& origin,
                  const RunData& data, Metrics metrics, std::size_t classes, Pace* pace, ResumeState* resume);

// The checkpoint of the best weights so far is needed at the end: where it is missing, resume->searches_anew.
void check_best_checkpoint(const RunSettings& run, const TrainingSettings& training, ResumeState* resume);

// Whether a search that begins anew saves the weights that it begins with: not where they are in the run's own folder
// and training goes on, so that no checkpoint is replaced before there is something new.
bool saves_first(const std::string& output_dir, const ResumeState& resume);

// Whether evaluations of the checkpoint and those of now are of the same rows, cut into the same batches.
bool has_same_validation(const ResumeState& resume);

}  // namespace bascule
