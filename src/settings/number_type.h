// SPDX-License-Identifier: Apache-2.0
// The word of the option --precision, as model.precision has it in a file.
#pragma once

#include <string>

#include "src/settings/settings.h"

namespace bascule {

// Throws Error kSettings where it is neither "float32" nor "bf16".
Precision read_number_type(const std::string& word);

}  // namespace bascule
