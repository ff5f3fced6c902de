// SPDX-License-Identifier: Apache-2.0
// The files that a training run reads: what must be on another machine for the same run. Before the seal.
#pragma once

#include <vector>

#include "src/files/input_list.h"
#include "src/record/recorded_run.h"

namespace bascule {

// The files of the model, the tokenizer, the data, a checkpoint that training.resume names, and the hosts; not the
// settings file, and nothing in output_dir. Sorted by folder. Reads the model's index of weights and no weights. Throws
// Error (kData) where the weights, or the checkpoint's folder, are missing.
std::vector<InputFolder> run_inputs(const RecordedRun& run);

}  // namespace bascule
