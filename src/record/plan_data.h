// SPDX-License-Identifier: Apache-2.0
// The samples of a run: opens the splits that it reads, takes their classes, and plans the loader. Before the seal;
// throws Error.
#pragma once

#include <vector>

#include "firmware_shims/media_engine.h"
#include "src/record/data_rows.h"
#include "src/record/recorded_run.h"

namespace bascule {

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

}  // namespace bascule
