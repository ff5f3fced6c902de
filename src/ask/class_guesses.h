// SPDX-License-Identifier: Apache-2.0
// The classes that a classifier gives something, as `bascule classify` says them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/json/value.h"

namespace bascule {

struct ClassGuess {
  std::string label;  // of config.json's id2label; the class's number where there are no names
  double probability = 0.0;
};

// One name per class. Throws Error kData.
std::vector<std::string> class_names(const std::string& folder, std::int64_t classes);

// The `top` most probable of logits for the classes of these names: best first, equal ones by class number.
std::vector<ClassGuess> class_guesses(const float* logits, const std::vector<std::string>& names, std::size_t top);

// [{"label", "probability"}]
Json guesses_json(const std::vector<ClassGuess>& guesses);

}  // namespace bascule
