// SPDX-License-Identifier: Apache-2.0
// The samples of a run: opens the splits that it reads, takes their classes, and plans the loader. Before the seal;
// throws Error.
#pragma once

#include <vector>

#include "firmware_shims/media_engine.h"
#include "src/run/recorded_run.h"

namespace bascule {

// Fills run->data and, where the training data decides on the classes, opens the model anew. The model is open.
// lent: the splits that another run has opened; null: they are opened here.
void plan_data(RecordedRun* run, const media_engine_driver* engine, std::vector<RecordedSplit>* lent);

}  // namespace bascule
