// SPDX-License-Identifier: Apache-2.0
// The samples of a run: opens the splits that it reads, takes their classes, and plans the loader. Before the seal;
// throws Error.
#pragma once

#include "firmware_shims/media_engine.h"
#include "src/run/recorded_run.h"

namespace bascule {

// Fills run->data and, where the training data decides on the classes, opens the model anew. The model is open.
// lender: the data of another run with the same rows and texts, which it lends; null: splits are opened here.
void plan_data(RecordedRun* run, const media_engine_driver* engine, RunData* lender);

}  // namespace bascule
