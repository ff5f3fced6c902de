// SPDX-License-Identifier: Apache-2.0
// Numbers with their nouns for messages: count_of(1, "row") is "1 row", count_of(1583, "row") "1583 rows". Allocates.
#pragma once

#include <string>

namespace bascule {

// The noun, or unless count is 1 its plural: with "es" after an s, else with an s. count: an integer.
template <typename Integer>
std::string noun_for(Integer count, const std::string& noun) {
  return count == 1 ? noun : noun + (noun.back() == 's' ? "es" : "s");
}

template <typename Integer>
std::string count_of(Integer count, const std::string& noun) {
  return std::to_string(count) + " " + noun_for(count, noun);
}

}  // namespace bascule
