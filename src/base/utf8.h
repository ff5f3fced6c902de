// SPDX-License-Identifier: Apache-2.0
// Text: UTF-8, and where its lines end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bascule {

// UTF-8, as the Unicode standard has it: no surrogates, no overlong forms, nothing above U+10FFFF.

// The place of the first byte that begins no character, or text.size() if all is UTF-8.
std::size_t first_invalid_utf8(std::string_view text) noexcept;

// Bytes of the character that begins at `place`, 1 .. 4; 0 if none does.
std::size_t utf8_bytes_at(std::string_view text, std::size_t place) noexcept;

// Characters that begin in `text`.
std::size_t utf8_characters(std::string_view text) noexcept;

// The most bytes, up to `limit`, that end between two characters.
std::size_t utf8_cut(std::string_view text, std::size_t limit) noexcept;

// One line that every terminal and log can show: control characters become spaces, bytes that are not UTF-8 question
// marks.
std::string printable_line(std::string text);

// Writes the code point's 1 .. 4 bytes to out and returns their number.
std::size_t put_utf8(std::uint32_t code_point, char* out) noexcept;

struct Utf8Character {
  std::uint32_t code_point;
  std::uint32_t bytes;  // 1 .. 4
};

// The character that begins at `place`. text is UTF-8 and place the start of a character in it.
inline Utf8Character utf8_character(std::string_view text, std::size_t place) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[place + i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// Where a line of a text ends: at "\n", "\r\n" or "\r", as Python reads texts, and at "\r\r\n", which a file has that
// was written as text twice on Windows.

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
