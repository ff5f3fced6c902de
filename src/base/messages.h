// SPDX-License-Identifier: Apache-2.0
// Parts of messages: counts with their nouns, lists of words, formatted figures.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace bascule {

// Numbers with their nouns for messages: count_of(1, "row") is "1 row", count_of(1583, "row") "1583 rows". Allocates.

// The noun, or unless count is 1 its plural: with "es" after an s, else with an s. count: an integer.
template <typename Integer>
std::string noun_for(Integer count, const std::string& noun) {
  return count == 1 ? noun : noun + (noun.back() == 's' ? "es" : "s");
}

template <typename Integer>
std::string count_of(Integer count, const std::string& noun) {
  return std::to_string(count) + " " + noun_for(count, noun);
}

// Lists in a message: "a, b and c", "a or b". Allocates.

std::string and_list(const std::vector<std::string>& words);
std::string or_list(const std::vector<std::string>& words);

// Short texts with figures in them: formatted("%.2f s", 1.5) is "1.50 s".

// As printf writes it, cut after 511 bytes.
template <typename... Values>
std::string formatted(const char* form, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}

// The number that people write for a float: 4.2 for 4.2f, which as a double is 4.199999809265137. Allocates nothing.

// The shortest decimal text that reads back to the same float, as a double.
double as_written(float value) noexcept;

}  // namespace bascule
