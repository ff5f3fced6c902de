// SPDX-License-Identifier: Apache-2.0
// Where a line of a text ends: at "\n", "\r\n" or "\r", as Python reads texts, and at "\r\r\n", which a file has that
// was written as text twice on Windows.
#pragma once

#include <cstddef>
#include <string_view>

namespace bascule {

// The place of the first line break from `from` on; the text's end: it has none.
inline std::size_t find_line_break(std::string_view text, std::size_t from) noexcept {
  while (from < text.size() && text[from] != '\n' && text[from] != '\r') ++from;
  return from;
}

// Bytes of the line break that `rest` begins with.
inline std::size_t line_break_bytes(std::string_view rest) noexcept {
  for (const std::string_view one : {std::string_view("\r\n"), std::string_view("\r\r\n")}) {
    if (rest.substr(0, one.size()) == one) return one.size();
  }
  return 1;
}

inline constexpr std::size_t kMostLineBreakBytes = 3;

}  // namespace bascule
