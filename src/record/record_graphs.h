// SPDX-License-Identifier: Apache-2.0
// The graphs of a run, one for each use that it makes of the model, and the judge of its evaluations. Before the seal.
#pragma once

#include <vector>

#include "src/judge/judge.h"
#include "src/models/model.h"
#include "src/record/recorded_run.h"
#include "src/runtime/tape.h"

namespace bascule {

// Fills run->graphs. The data and the pace are planned.
void record_graphs(RecordedRun* run);

// The outputs of a recording, the terms of its loss first. tape: for the addresses; null: none yet.
std::vector<JudgedOutput> judged_outputs(const Recording& recording, const Graph& graph, const Tape* tape);

}  // namespace bascule
