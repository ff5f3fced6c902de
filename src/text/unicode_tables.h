// SPDX-License-Identifier: Apache-2.0
// Facts of Unicode by code point: classes, forms, grapheme clusters; and NFC. tools/make_unicode_tables.py writes the
// numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bascule {

// Which characters the byte-level pattern of the tokenizers library takes for letters, numbers and white space.

enum class CharacterClass : std::uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// Any number is allowed; what is no code point is kOther.
CharacterClass character_class(std::uint32_t code_point) noexcept;

// The library's parts of a word beside an added token that is a word by itself: letters, marks, decimal
// digits, connecting punctuation.
bool is_word_character(std::uint32_t code_point) noexcept;

// Canonical decomposition and composition and lower case by code point, as the tokenizers library has them: its tables
// for decomposition are older than today's Unicode.

// One or two code points; of one, second is 0.
struct CodePointPair {
  std::uint32_t first = 0, second = 0;
};

// 0: a starter; otherwise marks are put in ascending order of it, the order of equals kept.
std::uint32_t combining_class(std::uint32_t code_point) noexcept;

// The decomposition in full: 1 to 4 code points. out: room for 4.
int decomposed(std::uint32_t code_point, std::uint32_t* out) noexcept;

// The composition by NFC of two code points that follow each other. 0: they stay two.
std::uint32_t composed(std::uint32_t first, std::uint32_t second) noexcept;

// Looks at the character alone: a final sigma is not told from others.
CodePointPair lower_case(std::uint32_t code_point) noexcept;

// Where the tokenizers library sees the bounds of grapheme clusters (Unicode 17), as far as clusters of fewer than six
// bytes need it: a character and the marks behind it.

enum class GraphemeClass : std::uint8_t {
  kOther,
  kContinues,  // belongs to the character before it, unless that stands alone
  kAlone,      // a control character; CR and LF together are one cluster
};

// Any number is allowed; what is no code point is kOther.
GraphemeClass grapheme_class(std::uint32_t code_point) noexcept;

// How BERT's normaliser and splitter treat each code point, as the tokenizers library does: its tables are older
// than today's Unicode.

enum class WordPieceClass : std::uint8_t {
  kOther = 0,
  kRemoved = 1,      // dropped from the text
  kSpace = 2,        // ends a word
  kChinese = 3,      // a word of its own, before marks are dropped
  kPunctuation = 4,  // a word of its own, after that
};

// Any number is allowed; what is no code point is kOther.
WordPieceClass word_piece_class(std::uint32_t code_point) noexcept;

// A mark without width of its own (Mn), which BERT's normaliser drops.
bool is_mark(std::uint32_t code_point) noexcept;

// Unicode's normalisation form C (UAX 15, definitions D108 and D117 of the Unicode standard): characters are
// decomposed, marks put in order, and composed again.

// The most code points while a text of so many bytes is decomposed: U+0390, of two bytes, has three.
constexpr std::size_t nfc_code_points(std::size_t text_bytes) { return text_bytes + text_bytes / 2; }

// Writes the code points of the text's normalisation form C to out and returns their number. text is UTF-8; out has
// room for nfc_code_points(text.size()), all of which is used on the way. O(n log n). Allocates nothing.
std::size_t nfc(std::string_view text, std::uint64_t* out) noexcept;

// One name in two of Unicode's forms looks alike and is two files: "é" as one character, or as "e" and an accent, as
// other systems and archives write it. For messages before the seal.

// The text after "No such file or directory" where names that are equal in normalisation form C lead to a file or
// folder; else "".
std::string note_on_other_form(const std::string& path);
inline constexpr char kOtherFormAdvice[] = "rename the file, or copy its name from a list of the folder";

}  // namespace bascule
