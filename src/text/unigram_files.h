// SPDX-License-Identifier: Apache-2.0
// The files of a unigram tokenizer, and its map of characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/side_tokens.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// SentencePiece's precompiled map of characters, as the tokenizers library's Precompiled normalizer applies it: a
// grapheme cluster of fewer than six bytes is looked up whole and replaced by the value of its shortest matching
// prefix; where it has none, and in longer clusters, each character is looked up alone. (SentencePiece itself takes the
// longest prefix and knows no clusters.)

class CharacterMap {
 public:
  CharacterMap() = default;  // leaves every text as it is
  // bytes: the size of a double-array trie in bytes (u32), the trie in units of darts-clone, zero-terminated strings,
  // all little-endian. Before the seal; throws Error (kData) naming `where` for one that is cut short, or whose
  // values are not UTF-8 inside it.
  CharacterMap(const std::string& bytes, const std::string& where);

  // After the seal. text is UTF-8 and does not overlap out, which has room for most_bytes(text.size()). Returns the
  // bytes written, which are UTF-8.
  std::size_t apply(std::string_view text, char* out) const noexcept;
  // An upper bound for the result of any text of so many bytes.
  std::size_t most_bytes(std::size_t text_bytes) const noexcept { return text_bytes * growth_; }

 private:
  // Where a value is in values_; null: no prefix of the key has one.
  const char* find(std::string_view key) const noexcept;
  void check(const std::string& where);

  std::vector<std::uint32_t> units_;
  std::string values_;
  bool is_kept_[128] = {};  // ASCII that no key begins with
  std::size_t growth_ = 1;  // most bytes of a value for a byte of its key
};

// Reads and checks tokenizer.json of a SentencePiece unigram tokenizer, as T5 has it. Before the seal.

struct UnigramFiles {
  struct Piece {
    std::string text;
    double score = 0.0;  // log probability
  };

  std::string where;          // tokenizer.json, for messages
  std::vector<Piece> pieces;  // by id
  std::vector<AddedToken> added;
  std::int32_t unknown = -1, end = -1, pad = -1;
  std::string character_map;  // bytes of precompiled_charsmap; empty: none
  // The published forms of the pipeline. splits_at_space: words end at white space. Otherwise at spaces alone, white
  // space at the end of the text is dropped, and joins_spaces: several spaces are one.
  bool splits_at_space = false, joins_spaces = false;
  bool joins_with_sign = false;  // the one space is the sign of a word's beginning
};

// Throws Error (kData) for a file that is malformed, a form of the pipeline that T5 does not have, a vocabulary without
// an unknown token, and a folder with spiece.model alone.
UnigramFiles read_unigram_files(const TokenizerFolder& folder);

}  // namespace bascule
