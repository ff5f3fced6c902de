// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/drawn_queue.h"

#include <algorithm>
#include <cstring>

namespace bascule {
namespace {

// The pictures of two batches: a rank never waits for one that looks once a batch.
std::uint64_t capacity_for(std::int64_t batch) { return 2 * static_cast<std::uint64_t>(batch); }

}  // namespace

DrawnQueue::DrawnQueue(std::byte* memory, std::int64_t batch, std::int64_t digests) noexcept
    : memory_(memory), capacity_(capacity_for(batch)), digests_(digests) {}

std::size_t DrawnQueue::bytes(int ranks, std::int64_t batch, std::int64_t digests) noexcept {
  const std::uint64_t entries = capacity_for(batch) * (3 + static_cast<std::uint64_t>(digests)) * sizeof(std::uint64_t);
  return static_cast<std::size_t>(ranks) * (sizeof(Ring) + align_up<std::size_t>(entries, kCacheLine));
}

DrawnQueue::Ring& DrawnQueue::ring(int rank) const noexcept {
  const std::size_t stride =
      sizeof(Ring) + align_up<std::size_t>(capacity_ * words_of_entry() * sizeof(std::uint64_t), kCacheLine);
  return *static_cast<Ring*>(static_cast<void*>(memory_ + static_cast<std::size_t>(rank) * stride));
}

std::uint64_t* DrawnQueue::words(int rank, std::uint64_t place) const noexcept {
  std::uint64_t* const first = static_cast<std::uint64_t*>(static_cast<void*>(&ring(rank) + 1));
  return first + place % capacity_ * words_of_entry();
}

bool DrawnQueue::push(int rank, const DrawnPicture& picture, Span<const std::uint64_t> latents) noexcept {
  Ring& own = ring(rank);
  const std::uint64_t place = own.written.load(std::memory_order_relaxed);
  if (place - own.read.load(std::memory_order_acquire) == capacity_) return false;
  std::uint64_t* const word = words(rank, place);
  word[0] = picture.number;
  std::memcpy(word + 1, &picture.seconds, sizeof picture.seconds);
  word[2] = picture.digest;
  std::copy_n(latents.data(), digests_, word + 3);
  own.written.store(place + 1, std::memory_order_release);
  return true;
}

bool DrawnQueue::front(int rank, Entry* entry) const noexcept {
  const Ring& own = ring(rank);
  const std::uint64_t place = own.read.load(std::memory_order_relaxed);
  if (place == own.written.load(std::memory_order_acquire)) return false;
  const std::uint64_t* const word = words(rank, place);
  entry->picture.number = static_cast<std::size_t>(word[0]);
  std::memcpy(&entry->picture.seconds, word + 1, sizeof entry->picture.seconds);
  entry->picture.digest = word[2];
  entry->latents = {word + 3, static_cast<std::size_t>(digests_)};
  return true;
}

bool DrawnQueue::is_done(int rank) const noexcept {
  const Ring& own = ring(rank);
  // In this order: what was pushed before the end is seen.
  return own.has_ended.load(std::memory_order_acquire) != 0 &&
         own.read.load(std::memory_order_relaxed) == own.written.load(std::memory_order_relaxed);
}

}  // namespace bascule
