// SPDX-License-Identifier: Apache-2.0
// The graphs of a run, one for each use that it makes of the model, and the judge of its evaluations. Before the seal.
#pragma once

#include "src/run/recorded_run.h"

namespace bascule {

// Fills run->graphs. The data and the pace are planned.
void record_graphs(RecordedRun* run);

}  // namespace bascule
