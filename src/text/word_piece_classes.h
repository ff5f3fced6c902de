// SPDX-License-Identifier: Apache-2.0
// How BERT's normaliser and splitter treat each code point, as the tokenizers library does: its tables are older
// than today's Unicode.
#pragma once

#include <cstdint>

namespace bascule {

enum class WordPieceClass : std::uint8_t {
  kOther = 0,
  kRemoved = 1,      // dropped from the text
  kSpace = 2,        // ends a word
  kChinese = 3,      // a word of its own, before marks are dropped
  kPunctuation = 4,  // a word of its own, after that
};

// Any number is allowed; what is no code point is kOther.
WordPieceClass word_piece_class(std::uint32_t code_point) noexcept;

// Normalises a code point by NFD, drops marks (Mn) and lowers its case: 0 to 3 code points. out: room for 3.
int lowered_code_points(std::uint32_t code_point, std::uint32_t* out) noexcept;

}  // namespace bascule
