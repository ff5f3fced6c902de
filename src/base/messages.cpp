// SPDX-License-Identifier: Apache-2.0
#include "src/base/messages.h"

#include <charconv>

namespace bascule {
namespace {

std::string list(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + words[i];
  return text;
}

}  // namespace

std::string and_list(const std::vector<std::string>& words) { return list(words, " and "); }
std::string or_list(const std::vector<std::string>& words) { return list(words, " or "); }

double as_written(float value) noexcept {
  char digits[32];
  const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double number = 0.0;
  std::from_chars(digits, end, number);
  return number;
}

}  // namespace bascule
