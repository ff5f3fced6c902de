// SPDX-License-Identifier: Apache-2.0
// [[training.groups]]: tensors that train at another rate, decay otherwise or keep their values. Before the seal.
#pragma once

#include <vector>

#include "src/graph/parameters.h"
#include "src/settings/settings.h"

namespace bascule {

// The groups of a run, for recording its parameters.
std::vector<ParameterGroup> parameter_groups(const TrainingSettings& training);

// After recording. Throws Error (kSettings) for a group without effect (its pattern matches no tensor of the model, or
// earlier groups have them all), for one that freezes a part of a matrix, and where nothing is left to train.
void check_parameter_groups(const TrainingSettings& training, const SettingsOrigin& origin,
                            const ParameterSet& parameters);

}  // namespace bascule
