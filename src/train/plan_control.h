// SPDX-License-Identifier: Apache-2.0
// When a run evaluates, saves and stops, and which evaluation is the best, from the settings; and what a checkpoint's
// search for the best means for them. Before the seal.
#pragma once

#include "src/train/recorded_run.h"

namespace bascule {

// Fills run->control and run->best_figure, and for a run that goes on from a checkpoint run->is_over and
// run->searches_anew, which are noted in run->notes. Throws Error{kSettings} for a figure that the head does not have.
void plan_control(RecordedRun* run);

// The checkpoint of the best weights so far is needed at the end: where it is missing, run->searches_anew.
void check_best_checkpoint(RecordedRun* run);

// Whether a search that begins anew saves the weights that it begins with: not where they are in the run's own folder
// and training goes on, so that no checkpoint is replaced before there is something new.
bool saves_first(const RecordedRun& run);

// Whether evaluations of the checkpoint and those of now are of the same rows, cut into the same batches.
bool has_same_validation(const RecordedRun& run);

}  // namespace bascule
