// SPDX-License-Identifier: Apache-2.0
// The names of the files that a checkpoint has beside tensors and state, in the order in which the loop writes them:
// written by the writer of checkpoints, read back by those parts of the seal whose contents they are.
#pragma once

namespace bascule {

inline constexpr char kStepRecords[] = "step_records.bin";
inline constexpr char kEvaluationRecords[] = "evaluation_records.bin";
inline constexpr char kPictureDigestsFile[] = "picture_digests.bin";
inline constexpr char kAveragedRecords[] = "averaged_evaluation_records.bin";  // where an average is evaluated

}  // namespace bascule
