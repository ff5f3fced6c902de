// SPDX-License-Identifier: Apache-2.0
// The model card: README.md of the output folder, as the Hugging Face hub reads it (YAML header, then Markdown). Finish
// phase.
#pragma once

#include <string>

#include "src/answer/report.h"

namespace bascule {

std::string model_card(const Report& report);

}  // namespace bascule
