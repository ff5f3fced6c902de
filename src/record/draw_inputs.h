// SPDX-License-Identifier: Apache-2.0
// The files that a run that draws reads: what must be on another machine for the same pictures. Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/files/input_list.h"
#include "src/record/recorded_draw_run.h"

namespace bascule {

// The files of every part of the pipeline, of the tokenizer, of prompts and of latents; not the settings file, and
// nothing in output_dir. Reads the parts' indexes of weights and no weights. Throws Error kData where weights are
// missing.
std::vector<InputFolder> draw_inputs(const RecordedDrawRun& run);

// The same files with their paths.
std::vector<std::string> draw_input_paths(const RecordedDrawRun& run);

}  // namespace bascule
