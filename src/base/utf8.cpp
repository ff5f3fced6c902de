// SPDX-License-Identifier: Apache-2.0
#include "src/base/utf8.h"

#include <cstring>

namespace bascule {
namespace {

// Bytes of the character at the front of `text`, or 0 if none begins there.
std::size_t character_bytes(const unsigned char* text, std::size_t size) noexcept {
  const unsigned char lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation byte, or an overlong form of an ASCII character
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead > 0xF4 || size < bytes) return 0;
  // The second byte's bounds keep out overlong forms (E0, F0), surrogates (ED) and what lies above U+10FFFF (F4).
  const unsigned char lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (text[1] < lowest || text[1] > highest) return 0;
  for (std::size_t i = 2; i < bytes; ++i) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  return bytes;
}

bool continues(char byte) noexcept { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::size_t utf8_bytes_at(std::string_view text, std::size_t place) noexcept {
  return character_bytes(reinterpret_cast<const unsigned char*>(text.data()) + place, text.size() - place);
}

std::size_t utf8_characters(std::string_view text) noexcept {
  std::size_t count = 0;
  for (const char byte : text) count += continues(byte) ? 0 : 1;
  return count;
}

std::size_t utf8_cut(std::string_view text, std::size_t limit) noexcept {
  if (text.size() <= limit) return text.size();
  while (limit > 0 && continues(text[limit])) --limit;
  return limit;
}

std::string printable_line(std::string text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = utf8_bytes_at(text, i);
    if (bytes == 0) text[i] = '?';
    if (bytes == 1 && (static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7f)) text[i] = ' ';
    i += bytes == 0 ? 1 : bytes;
  }
  return text;
}

std::size_t put_utf8(std::uint32_t code_point, char* out) noexcept {
  if (code_point < 0x80) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  const std::size_t bytes = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  const std::uint32_t lead = bytes == 2 ? 0xC0 : bytes == 3 ? 0xE0 : 0xF0;
  for (std::size_t i = bytes; i > 1; code_point >>= 6) out[--i] = static_cast<char>(0x80 | (code_point & 0x3F));
  out[0] = static_cast<char>(lead | code_point);
  return bytes;
}

std::size_t first_invalid_utf8(std::string_view text) noexcept {
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t place = 0;
  while (place < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - place >= sizeof(eight)) {
      std::memcpy(&eight, bytes + place, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        place += sizeof(eight);
        continue;
      }
    }
    const std::size_t length = character_bytes(bytes + place, text.size() - place);
    if (length == 0) return place;
    place += length;
  }
  return place;
}

}  // namespace bascule
