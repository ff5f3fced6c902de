// SPDX-License-Identifier: Apache-2.0
// The tables behind byte-level BPE, as vocabulary.cpp makes them of a folder's files: which byte is which token,
// which pairs of tokens merge, which words are one token, which special tokens are looked for in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/added_tokens.h"
#include "src/text/bpe_files.h"
#include "src/text/tokenizer.h"

namespace bascule {

constexpr std::uint32_t kNoMerge = 0xffffffffu;

struct Merge {
  std::uint32_t rank = kNoMerge;  // the lower, the earlier
  std::int32_t token = -1;        // what the pair becomes
};

// (left token, right token) -> Merge. Open addressing in one flat array, filled once.
class MergeTable {
 public:
  MergeTable() = default;
  explicit MergeTable(std::size_t merges);
  // The later of two merges of one pair wins, as in the tokenizers library.
  void insert(std::int32_t left, std::int32_t right, Merge merge);
  // rank is kNoMerge for a pair that does not merge.
  Merge find(std::int32_t left, std::int32_t right) const noexcept;

 private:
  struct Entry {
    std::uint64_t pair = ~std::uint64_t{0};
    Merge merge;
  };
  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
};

// Bytes of a piece of text -> the one token that merging makes of it. Only pieces that do end as one token are in it,
// so a hit replaces the merging and never changes its outcome.
class WordTable {
 public:
  static constexpr std::size_t kLongest = 15;  // bytes; longer pieces are merged
  WordTable() = default;
  explicit WordTable(std::size_t words);
  void insert(std::string_view word, std::int32_t token);
  // -1 if it is not in the table.
  std::int32_t find(std::string_view word) const noexcept;

 private:
  struct Entry {
    std::uint64_t low = 0;   // bytes 0..7 of the word, zero after its end
    std::uint64_t high = 0;  // bytes 8..14, and the length in the last; 0: an empty entry
    std::int32_t token = -1;
  };
  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
};

struct Vocabulary {
  // -1: the vocabulary lacks this byte; then unknown_byte_token, or nothing. The last byte of a piece may have another
  // token: the one with BpeFiles::word_end.
  std::int32_t byte_token[256], last_byte_token[256];
  std::int32_t unknown_byte_token = -1;
  MergeTable merges;
  WordTable words;
  AddedTokens added;  // those that are found in the text as it is written
};

// Throws Error (kData). facts->digest: XXH3 of all that the files say.
Vocabulary make_vocabulary(const BpeFiles& files, TokenizerFacts* facts);

// The bytes that a token stands for, or nothing if it is not written in the byte-level alphabet.
std::optional<std::string> token_bytes(const std::string& token);

}  // namespace bascule
