// SPDX-License-Identifier: Apache-2.0
// The words that settings may use for the model in a folder: its family's, and those of the judges of its heads.
#pragma once

#include <string>

#include "src/settings/settings.h"

namespace bascule {

// The words of a model's family. A folder without a config.json gives those of every family; opening the model refuses
// it. Throws Error kData if the file is broken or of another family: before its head or frozen parts are compared with
// a family that it is not of.
ModelWords model_words(const std::string& folder);

// The words of the family that a config.json without model_type means.
ModelWords words_of_usual_family();

}  // namespace bascule
