// SPDX-License-Identifier: Apache-2.0
// The tables of byte-level BPE, and merging with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/span.h"
#include "src/text/bpe_files.h"
#include "src/text/side_tokens.h"
#include "src/text/tokenizer.h"

namespace bascule {

// The tables behind byte-level BPE, as vocabulary.cpp makes them of a folder's files: which byte is which token,
// which pairs of tokens merge, which words are one token, which special tokens are looked for in the text.

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

// Byte-pair merging of one piece of text, and the working memory that it needs. Nothing here allocates.

// The working memory of one thread that tokenises, laid over memory of the caller (any alignment; it must outlive
// this).
class MergeScratch {
 public:
  // Enough for any text of at most this many bytes: a little more than 44 times that.
  static std::size_t bytes(std::size_t longest_text_bytes) noexcept;

  explicit MergeScratch(Span<std::byte> memory) noexcept;

  // The longest piece (word, run of digits or of signs) that can be merged in this memory, in bytes.
  std::size_t longest_piece_bytes() const noexcept { return longest_piece_bytes_; }

 private:
  friend class PieceMerger;
  std::size_t longest_piece_bytes_ = 0;
  std::uint64_t* queue_ = nullptr;      // 3 a byte: a heap of (rank of a pair) << 32 | place of its left symbol
  std::int32_t* symbol_ = nullptr;      // this and those below, 1 a byte: token id of the symbol at a place
  std::int32_t* previous_ = nullptr;    // place of the symbol before, -1 at the front
  std::int32_t* next_ = nullptr;        // place of the symbol after, -1 at the end
  std::uint32_t* pair_rank_ = nullptr;  // rank of the pair (this symbol, the next one), kNoMerge if they do not merge
  std::int32_t* merged_symbol_ = nullptr;  // what that pair becomes
};

// Merges one piece: a token for each byte, then again and again the pair of the lowest rank, the leftmost of equals,
// until none merges. O(n log n). Requires piece.size() <= scratch.longest_piece_bytes().
//
//   PieceMerger merger(piece, vocabulary, scratch);
//   for (std::int32_t place = merger.first(); place >= 0; place = merger.next(place)) use(merger.token(place));
class PieceMerger {
 public:
  PieceMerger(std::string_view piece, const Vocabulary& vocabulary, MergeScratch& scratch) noexcept;

  // The place of the first token, -1 if there is none (all bytes unknown); then of those after it, -1 after the last.
  std::int32_t first() const noexcept { return first_; }
  std::int32_t next(std::int32_t place) const noexcept { return scratch_.next_[place]; }
  std::int32_t token(std::int32_t place) const noexcept { return scratch_.symbol_[place]; }

 private:
  void place_bytes(std::string_view piece, const Vocabulary& vocabulary) noexcept;
  // Looks up the pair that begins at `place`; true if it merges.
  bool rank_pair(std::int32_t place, const MergeTable& merges) noexcept;
  void enqueue(std::int32_t place) noexcept;
  void merge_all(const MergeTable& merges) noexcept;

  MergeScratch& scratch_;
  std::size_t queued_ = 0;
  std::int32_t first_ = -1;
  std::int32_t symbols_ = 0;
};

}  // namespace bascule
