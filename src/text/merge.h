// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging of one piece of text, and the working memory that it needs. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/span.h"
#include "src/text/vocabulary.h"

namespace bascule {

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
