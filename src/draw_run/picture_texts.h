// SPDX-License-Identifier: Apache-2.0
// What a picture's file says of how it was drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/pictures/png_file.h"

namespace bascule {

// Keys "prompt", "seed" and "settings digest".
std::vector<PngText> picture_texts(const std::string& prompt, std::uint64_t seed, const std::string& digest);

}  // namespace bascule
