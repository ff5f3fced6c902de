// SPDX-License-Identifier: Apache-2.0
// The ids of tokens as the files of tokenizers hold them.
#pragma once

#include <cstdint>
#include <string>

#include "src/json/json.h"

namespace bascule {

// More than any vocabulary has. A larger id is a fault of the file; no table is made for it.
inline constexpr std::int64_t kMostTokenIds = std::int64_t{1} << 22;

// The id that a file gives to a token. Throws Error (kData) unless it is a whole number from 0 to below kMostTokenIds.
std::int32_t token_id(const Json& value, const std::string& token, const std::string& where);

}  // namespace bascule
