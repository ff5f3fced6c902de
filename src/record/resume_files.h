// SPDX-License-Identifier: Apache-2.0
// The files that a run reads, told by their content, so that a run may go on when they have moved and may not when they
// are others: digests that a checkpoint keeps, and their check at a resume. Before the seal.
#pragma once

#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/record/recorded_run.h"

namespace bascule {

// The digest of the weights in the model folder, under this name: names, shapes and values. Reads all of them.
inline constexpr char kModelWeights[] = "model.weights";
std::string weights_digest(const TensorSource& source);
// One digest for each split that the run reads.
std::vector<SettingValue> data_digests(const RunData& data);

// Throws Error where the model folder's files are not those of resume->point: kSettings naming both paths where the
// path was changed, else kData. The weights are read where the folder is another one.
void check_model_files(const ModelSettings& model, const SettingsOrigin& origin, const OpenedModel& opened,
                       ResumeState* resume);
// The same for the training data. Other evaluation data is a change of the history.
void check_data(const SettingsOrigin& origin, const RunData& data, ResumeState* resume);

}  // namespace bascule
