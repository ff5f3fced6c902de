// SPDX-License-Identifier: Apache-2.0
// The name of the JSON type alone, for headers that pass documents on: json.h costs seconds of compile time in every
// file.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace bascule {

// Keys are kept sorted, as Transformers writes them; lookup is logarithmic (a vocabulary is one object of 50,000 keys).
using Json = nlohmann::json;

}  // namespace bascule
