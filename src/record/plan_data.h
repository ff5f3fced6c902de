// SPDX-License-Identifier: Apache-2.0
// The samples of a run, and when it evaluates, saves and stops.
#pragma once

#include <vector>

#include "firmware_shims/media_engine.h"
#include "src/record/data_rows.h"
#include "src/record/recorded_run.h"

namespace bascule {

// The samples of a run: opens the splits that it reads, takes their classes, and plans the loader. Before the seal;
// throws Error.

// Fills run->data and, where the training data decides on the classes, opens the model anew. The model is open.
// lender: the data of another run with the same rows and texts, which it lends; null: splits are opened here.
void plan_data(RecordedRun* run, const media_engine_driver* engine, RunData* lender);

// The training file with all its rows, opened anew. The data is planned; the file is no text corpus.
Manifest whole_training_file(const RecordedRun& run);

// Its parts, for those that look at data which a run may refuse. The splits that a run reads, in order; what the loader
// is told before it has a split; one split, opened, its classes not numbered yet.
std::vector<Split> splits_read(const TrainingSettings& training);
void set_up_loader(RecordedRun* run, const media_engine_driver* engine);
// held_out: the same for all splits of a run.
void open_split(RecordedRun* run, Split split, HeldOut* held_out, RunData* lender = nullptr);

// When a run evaluates, saves and stops, and which evaluation is the best, from the settings; and what a checkpoint's
// search for the best means for them. Before the seal.

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
