// SPDX-License-Identifier: Apache-2.0
// The files of checkpoints and of the folder that a run writes.
#pragma once

#include <string>

#include "src/checkpoint/hf_write.h"
#include "src/record/recorded_run.h"
#include "src/seal/sealed_weights.h"

namespace bascule {

// The names of the files that a checkpoint has beside tensors and state, in the order in which the loop writes them:
// written by the writer of checkpoints, read back by those parts of the seal whose contents they are.

inline constexpr char kStepRecords[] = "step_records.bin";
inline constexpr char kEvaluationRecords[] = "evaluation_records.bin";
inline constexpr char kPictureDigestsFile[] = "picture_digests.bin";
inline constexpr char kAveragedRecords[] = "averaged_evaluation_records.bin";  // where an average is evaluated

// The contents of the Hugging Face folder that a run writes: its configuration, the files of its sources, and its
// tensors. Before the seal; throws Error.

// trained: the weights in the arena, or their average. weights: outlives what is made of the contents.
HfFolderContents model_folder(const RecordedRun& run, const SealedWeights& weights, const float* trained);

// "a, b/ and 3 more": files of the folder that the run begins from that the finished one will lack, as nothing here
// knows what they say of the model; "" for none.
std::string files_left_behind(const RecordedRun& run);

}  // namespace bascule
