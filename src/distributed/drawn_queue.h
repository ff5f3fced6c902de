// SPDX-License-Identifier: Apache-2.0
// How the ranks of a drawing run tell the first one of their pictures, which alone writes images.jsonl: a ring for each
// rank, in memory that they share, which is zero at first.
//
//   DrawnQueue queue(memory, batch, digests);                    // DrawnQueue::bytes() of it
//   while (!queue.push(rank, picture, latents)) ...              // by a rank, once the picture's file is there
//   queue.end(rank);                                             // it draws no more
//   while (queue.front(rank, &entry)) { ...; queue.pop(rank); }  // by the first rank
//
// Sealed: allocates nothing. One writer and one reader for each ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/align.h"
#include "src/base/span.h"

namespace bascule {

struct DrawnPicture {
  std::size_t number = 0;    // in the list
  double seconds = 0.0;      // its share of its batch's
  std::uint64_t digest = 0;  // of its pixels
};

class DrawnQueue {
 public:
  struct Entry {
    DrawnPicture picture;
    Span<const std::uint64_t> latents;
  };

  DrawnQueue() = default;
  // Borrows the memory. batch: pictures at a time; digests: of the latents of one.
  DrawnQueue(std::byte* memory, std::int64_t batch, std::int64_t digests) noexcept;
  static std::size_t bytes(int ranks, std::int64_t batch, std::int64_t digests) noexcept;

  // False: the ring is full, as the first rank has not looked for long.
  [[nodiscard]] bool push(int rank, const DrawnPicture& picture, Span<const std::uint64_t> latents) noexcept;
  void end(int rank) noexcept { ring(rank).has_ended.store(1, std::memory_order_release); }

  // False: nothing is there. The entry's latents stay until pop().
  [[nodiscard]] bool front(int rank, Entry* entry) const noexcept;
  void pop(int rank) noexcept { ring(rank).read.fetch_add(1, std::memory_order_release); }
  // Whether it has ended, and all that it pushed was popped.
  bool is_done(int rank) const noexcept;

 private:
  struct alignas(kCacheLine) Ring {
    std::atomic<std::uint64_t> written, read;
    std::atomic<std::uint32_t> has_ended;
  };
  Ring& ring(int rank) const noexcept;
  std::uint64_t* words(int rank, std::uint64_t place) const noexcept;
  std::uint64_t words_of_entry() const noexcept { return 3 + static_cast<std::uint64_t>(digests_); }

  std::byte* memory_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::int64_t digests_ = 0;
};

}  // namespace bascule
