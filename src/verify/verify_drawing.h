// SPDX-License-Identifier: Apache-2.0
// A reference case of a pipeline that draws: single calls of its models, and whole runs of its samplers. Layout:
// tests/data/goldens-families/README.md.
#pragma once

#include <string>

#include "src/verify/verify_case.h"

namespace bascule {

// Whether the case in the folder is one.
bool is_drawing_case(const std::string& folder);
// In bf16 a tensor is judged by its angle: 1 - cosine at most max(0.0005, twice what torch gets with all weights
// bfloat16, where float32_error.json has that); bytes are not compared. Throws Error kData.
VerifiedCase verify_drawing_case(const std::string& folder, Precision precision, Isa isa, int threads);

}  // namespace bascule
