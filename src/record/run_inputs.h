// SPDX-License-Identifier: Apache-2.0
// The files and facts of a training run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/base/readable.h"
#include "src/files/input_file.h"
#include "src/graph/parameters.h"
#include "src/record/recorded_run.h"

namespace bascule {

// The files that a training run reads: what must be on another machine for the same run. Before the seal.

// The files of the model, the tokenizer, the data, a checkpoint that training.resume names, and the hosts; not the
// settings file, and nothing in output_dir. Sorted by folder. Reads the model's index of weights and no weights. Throws
// Error (kData) where the weights, or the checkpoint's folder, are missing.
std::vector<InputFolder> run_inputs(const RecordedRun& run);

// Facts of a recorded run, for the marker in its folder and for its report. Not sealed.

// Numbers, not tensors.
struct ParameterCount {
  std::int64_t all = 0, trained = 0;
};

ParameterCount count_parameters(const ParameterSet& parameters);

// "131,072 parameters, 65,536 of them trained".
std::string parameters_text(const ParameterSet& parameters);

// Build, ISA, engine, seed and digests: what is needed to get the same bits.
std::vector<NamedText> provenance_of(const RecordedRun& run, Isa isa);

}  // namespace bascule
