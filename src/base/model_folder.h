// SPDX-License-Identifier: Apache-2.0
// The folder of a model, a tokenizer or a pipeline, which somebody may take for a name of the hub.
#pragma once

#include <string>

namespace bascule {

// Throws Error kData where the folder is missing.
void require_model_folder(const std::string& folder);

}  // namespace bascule
