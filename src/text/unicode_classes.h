// SPDX-License-Identifier: Apache-2.0
// Which characters the byte-level pattern of the tokenizers library takes for letters, numbers and white space.
#pragma once

#include <cstdint>

namespace bascule {

enum class CharacterClass : std::uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// Any number is allowed; what is no code point is kOther.
CharacterClass character_class(std::uint32_t code_point) noexcept;

// What the library takes for part of a word beside an added token that is a word by itself: letters, marks, decimal
// digits, connecting punctuation.
bool is_word_character(std::uint32_t code_point) noexcept;

}  // namespace bascule
