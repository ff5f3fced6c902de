// SPDX-License-Identifier: Apache-2.0
#include "src/text/merge.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "src/base/check.h"

namespace bascule {
namespace {

constexpr std::size_t kQueueEntriesPerByte = 3;  // the first pair of each symbol, and two new pairs a merge
constexpr std::size_t kBytesPerByte = kQueueEntriesPerByte * sizeof(std::uint64_t) + 5 * sizeof(std::int32_t);
constexpr std::size_t kAlignmentBytes = alignof(std::uint64_t);

}  // namespace

std::size_t MergeScratch::bytes(std::size_t longest_text_bytes) noexcept {
  return longest_text_bytes * kBytesPerByte + kAlignmentBytes;
}

MergeScratch::MergeScratch(Span<std::byte> memory) noexcept {
  void* begin = memory.data();
  std::size_t size = memory.size();
  if (std::align(kAlignmentBytes, kBytesPerByte, begin, size) == nullptr) return;
  // Places are 32-bit numbers.
  const std::size_t n = std::min(size / kBytesPerByte, std::size_t{std::numeric_limits<std::int32_t>::max()});
  longest_piece_bytes_ = n;
  queue_ = static_cast<std::uint64_t*>(begin);
  void* arrays = queue_ + kQueueEntriesPerByte * n;
  symbol_ = static_cast<std::int32_t*>(arrays);
  previous_ = symbol_ + n;
  next_ = previous_ + n;
  merged_symbol_ = next_ + n;
  void* ranks = merged_symbol_ + n;
  pair_rank_ = static_cast<std::uint32_t*>(ranks);
}

PieceMerger::PieceMerger(std::string_view piece, const Vocabulary& vocabulary, MergeScratch& scratch) noexcept
    : scratch_(scratch) {
  BASCULE_CHECK(piece.size() <= scratch.longest_piece_bytes());
  place_bytes(piece, vocabulary);
  merge_all(vocabulary.merges);
}

void PieceMerger::place_bytes(std::string_view piece, const Vocabulary& vocabulary) noexcept {
  for (const char& c : piece) {
    const bool is_last = &c == &piece.back();
    const auto& tokens = is_last ? vocabulary.last_byte_token : vocabulary.byte_token;
    std::int32_t token = tokens[static_cast<unsigned char>(c)];
    if (token < 0) token = vocabulary.unknown_byte_token;
    if (token < 0) continue;
    scratch_.symbol_[symbols_] = token;
    scratch_.previous_[symbols_] = symbols_ - 1;
    scratch_.next_[symbols_] = symbols_ + 1;
    ++symbols_;
  }
  if (symbols_ == 0) return;
  first_ = 0;
  scratch_.next_[symbols_ - 1] = -1;
}

bool PieceMerger::rank_pair(std::int32_t place, const MergeTable& merges) noexcept {
  const std::int32_t right = scratch_.next_[place];
  const Merge merge = right < 0 ? Merge{} : merges.find(scratch_.symbol_[place], scratch_.symbol_[right]);
  scratch_.pair_rank_[place] = merge.rank;
  scratch_.merged_symbol_[place] = merge.token;
  return merge.rank != kNoMerge;
}

void PieceMerger::enqueue(std::int32_t place) noexcept {
  scratch_.queue_[queued_++] =
      static_cast<std::uint64_t>(scratch_.pair_rank_[place]) << 32 | static_cast<std::uint32_t>(place);
}

void PieceMerger::merge_all(const MergeTable& merges) noexcept {
  std::uint64_t* const queue = scratch_.queue_;
  const std::greater<std::uint64_t> lowest_first;
  for (std::int32_t place = 0; place < symbols_; ++place) {
    if (rank_pair(place, merges)) enqueue(place);
  }
  std::make_heap(queue, queue + queued_, lowest_first);
  while (queued_ > 0) {
    std::pop_heap(queue, queue + queued_, lowest_first);
    const std::uint64_t entry = queue[--queued_];
    const std::int32_t place = static_cast<std::int32_t>(entry & 0xffffffffu);
    // The pair that this entry meant is gone if either of its symbols has merged since.
    if (scratch_.pair_rank_[place] != static_cast<std::uint32_t>(entry >> 32)) continue;
    const std::int32_t right = scratch_.next_[place];
    const std::int32_t after = scratch_.next_[right];
    scratch_.symbol_[place] = scratch_.merged_symbol_[place];
    scratch_.next_[place] = after;
    scratch_.pair_rank_[right] = kNoMerge;
    if (after >= 0) scratch_.previous_[after] = place;
    for (const std::int32_t changed : {place, scratch_.previous_[place]}) {
      if (changed < 0 || !rank_pair(changed, merges)) continue;
      enqueue(changed);
      std::push_heap(queue, queue + queued_, lowest_first);
    }
  }
}

}  // namespace bascule
