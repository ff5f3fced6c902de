// SPDX-License-Identifier: Apache-2.0
// The memory plan of a recorded run, and what its backward pass computes again. Before the seal.
#pragma once

#include "src/record/recorded_run.h"

namespace bascule {

// Fills in run->plan and run->recomputation, and adds a note where `full` or `fit` recompute. The graphs, the
// data and the pace are recorded. The bits of a run do not depend on what is chosen here.
void plan_run_memory(RecordedRun* run);

}  // namespace bascule
