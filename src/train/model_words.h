// SPDX-License-Identifier: Apache-2.0
// The words that settings may use for the model in a folder: its family's, and those of the judges of its heads.
#pragma once

#include <string>

#include "src/settings/settings.h"

namespace bascule {

// A folder without a config.json that can be read counts as one of the usual family; recording refuses it.
ModelWords model_words(const std::string& folder);

// The words of the family that a config.json without model_type means.
ModelWords words_of_usual_family();

}  // namespace bascule
