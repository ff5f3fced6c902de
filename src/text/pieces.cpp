// SPDX-License-Identifier: Apache-2.0
#include "src/text/pieces.h"

#include "src/base/utf8.h"
#include "src/text/unicode_classes.h"

namespace bascule {
namespace {

// Bytes of 's 't 're 've 'm 'll 'd if one begins at `place`, else 0.
std::size_t contraction_bytes(std::string_view text, std::size_t place) noexcept {
  if (text[place] != '\'' || text.size() - place < 2) return 0;
  const char first = text[place + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() - place < 3) return 0;
  const char second = text[place + 2];
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

CharacterClass class_at(std::string_view text, std::size_t place) noexcept {
  return character_class(utf8_character(text, place).code_point);
}

// The end of the run of characters of one class that begins at `place`, and in *last where its last character begins.
std::size_t run_end(std::string_view text, std::size_t place, CharacterClass wanted, std::size_t* last) noexcept {
  *last = place;
  while (place < text.size()) {
    const Utf8Character character = utf8_character(text, place);
    if (character_class(character.code_point) != wanted) break;
    *last = place;
    place += character.bytes;
  }
  return place;
}

}  // namespace

std::size_t piece_end(std::string_view text, std::size_t place) noexcept {
  const std::size_t contraction = contraction_bytes(text, place);
  if (contraction > 0) return place + contraction;
  std::size_t last = place;
  const CharacterClass first = class_at(text, place);
  if (first != CharacterClass::kSpace) return run_end(text, place, first, &last);
  if (text[place] == ' ' && place + 1 < text.size()) {
    const CharacterClass second = class_at(text, place + 1);
    if (second != CharacterClass::kSpace) return run_end(text, place + 1, second, &last);
  }
  // Takes a run of white space but leaves its last character to the next piece, unless the text ends there.
  const std::size_t end = run_end(text, place, CharacterClass::kSpace, &last);
  return end == text.size() || last == place ? end : last;
}

std::size_t clip_piece_end(std::string_view text, std::size_t place) noexcept {
  for (const std::string_view name : {"<|startoftext|>", "<|endoftext|>"}) {
    if (text.compare(place, name.size(), name) == 0) return place + name.size();
  }
  const std::size_t contraction = contraction_bytes(text, place);
  if (contraction > 0) return place + contraction;
  std::size_t last = place;
  const Utf8Character first = utf8_character(text, place);
  const CharacterClass first_class = character_class(first.code_point);
  if (first_class == CharacterClass::kNumber) return place + first.bytes;
  return run_end(text, place, first_class, &last);
}

std::size_t skip_space(std::string_view text, std::size_t place) noexcept {
  std::size_t last = place;
  return run_end(text, place, CharacterClass::kSpace, &last);
}

std::size_t skip_space_back(std::string_view text, std::size_t place) noexcept {
  while (place > 0) {
    std::size_t start = place - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (class_at(text, start) != CharacterClass::kSpace) break;
    place = start;
  }
  return place;
}

}  // namespace bascule
