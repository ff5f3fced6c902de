// SPDX-License-Identifier: Apache-2.0
// BERT's WordPiece, as Transformers' BertTokenizer with tokenizers 0.23: special tokens written in the text are taken
// first; then the text is cleaned, marks are dropped and case is lowered where the files say so, it is split at white
// space and punctuation, and each word is cut from the left into the longest pieces of the vocabulary. A word that
// cannot be, or that has more than 100 characters, is one unknown token. Before the seal; throws Error (kData).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/utf8.h"
#include "src/text/side_tokens.h"
#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"
#include "src/text/unicode_tables.h"

namespace bascule {

// tokenizer.json, or vocab.txt and tokenizer_config.json.
std::unique_ptr<const Tokenizer> load_word_piece(const TokenizerFolder& folder);
// Each token as the files write it.
std::vector<std::string> word_piece_texts(const TokenizerFolder& folder);

// The files of a WordPiece tokenizer, and how it normalises a text.

// How BERT's WordPiece normalises a text: what is no text is removed, Chinese characters get spaces around them, marks
// are dropped, case is lowered.

// Where in a text the bytes come from that were made of it, in memory of the caller. Null: places are not kept.
struct BytePlaces {
  std::size_t *begins = nullptr, *ends = nullptr;
  std::size_t size = 0;

  bool are_kept() const { return begins != nullptr; }
  void extend(std::size_t to, std::size_t begin, std::size_t end) {
    for (; are_kept() && size < to; ++size) {
      begins[size] = begin;
      ends[size] = end;
    }
  }
};

// A text as it grows, in memory of the caller.
struct NormalisedText {
  char* bytes;
  std::size_t size = 0;
  BytePlaces places = {};

  void add(std::uint32_t code_point, std::size_t from, std::size_t to) {
    size += put_utf8(code_point, bytes + size);
    places.extend(size, from, to);
  }
  std::size_t begin_of(std::size_t byte) const { return places.are_kept() ? places.begins[byte] : 0; }
  std::size_t end_of(std::size_t byte) const { return places.are_kept() ? places.ends[byte] : 0; }
};

struct WordPieceNormalizer {
  bool lowers = true;          // the case
  bool strips_marks = true;    // never without `lowers`
  bool splits_chinese = true;  // each Chinese character is a word

  // U+AC01, of three bytes, becomes three such characters.
  static constexpr std::size_t most_bytes(std::size_t text_bytes) { return 3 * text_bytes; }

  // The code points of a character after normalisation: 0 to 3.
  int code_points(std::uint32_t code_point, std::uint32_t (&out)[3]) const noexcept;

  // Calls put(code point, first and end of the bytes it is made of) for each character that bytes [place, end) become,
  // until is_done(). Allocates nothing.
  template <typename Done, typename Put>
  void normalise(std::string_view text, std::size_t place, std::size_t end, Done is_done, Put put) const noexcept;

  // The whole text. Allocates.
  std::string normalised(std::string_view text) const;
};

template <typename Done, typename Put>
void WordPieceNormalizer::normalise(std::string_view text, std::size_t place, std::size_t end, Done is_done,
                                    Put put) const noexcept {
  while (place < end && !is_done()) {
    const Utf8Character character = utf8_character(text, place);
    const std::size_t from = place;
    place += character.bytes;
    if (character.code_point >= 'a' && character.code_point <= 'z') {  // most of English
      put(character.code_point, from, place);
      continue;
    }
    const WordPieceClass kind = word_piece_class(character.code_point);
    if (kind == WordPieceClass::kRemoved) continue;
    if (kind == WordPieceClass::kSpace) {
      put(' ', from, place);
      continue;
    }
    const bool is_word = splits_chinese && kind == WordPieceClass::kChinese;
    if (is_word) put(' ', from, place);
    std::uint32_t characters[3];
    const int count = code_points(character.code_point, characters);
    for (int i = 0; i < count; ++i) put(characters[i], from, place);
    if (is_word) put(' ', from, place);
  }
}

// Reads and checks the files of a WordPiece tokenizer. Before the seal.

struct WordPieceFiles {
  std::string where;  // the file that the tokens are from, for messages
  TokenIds tokens;    // "play", "##ing" -> id
  std::vector<AddedToken> added;
  WordPieceNormalizer normalizer;
  bool has_types = true;  // of the texts of a pair
  std::string cls = "[CLS]", sep = "[SEP]", pad = "[PAD]", mask = "[MASK]", unk = "[UNK]";
};

// tokenizer.json, or vocab.txt (a token a line, numbered from 0); then tokenizer_config.json and
// special_tokens_map.json where they exist. Throws Error (kData) for a file that is missing or malformed, and for
// options that BertTokenizer does not have.
WordPieceFiles read_word_piece_files(const TokenizerFolder& folder);

}  // namespace bascule
