// SPDX-License-Identifier: Apache-2.0
// The contents of the Hugging Face folder that a run writes: its configuration, the files of its sources, and its
// tensors. Before the seal; throws Error.
#pragma once

#include <string>

#include "src/checkpoint/hf_write.h"
#include "src/record/recorded_run.h"
#include "src/seal/sealed_weights.h"

namespace bascule {

// trained: the weights in the arena, or their average. weights: outlives what is made of the contents.
HfFolderContents model_folder(const RecordedRun& run, const SealedWeights& weights, const float* trained);

// "a, b/ and 3 more": files of the folder that the run begins from that the finished one will lack, as nothing here
// knows what they say of the model; "" for none.
std::string files_left_behind(const RecordedRun& run);

}  // namespace bascule
