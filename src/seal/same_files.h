// SPDX-License-Identifier: Apache-2.0
// The machines of a run see the same settings, model, data and checkpoints, or the run is refused: called by every
// rank, before the seal. An Error kSettings, said by rank 0.
#pragma once

#include "src/distributed/group.h"
#include "src/record/recorded_run.h"
#include "src/session/parameter_values.h"

namespace bascule {

void check_same_files(const RecordedRun& run, Group& group);

// After they were read, or made, on every machine. resumes: they are of a checkpoint.
void check_same_weights(const SettingsOrigin& origin, Group& group, const ParameterMemory& memory, bool resumes);

}  // namespace bascule
