// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a node share, and the queue of drawn pictures in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/descriptor.h"
#include "src/base/mapped_memory.h"
#include "src/base/span.h"

namespace bascule {

// Memory that the ranks of a node share: an anonymous file (memfd) without a name anywhere, so that nothing outlives
// the processes, handed from one to another over a Unix socket. Page-aligned, zero at first; its pages become resident
// where they are touched (touch_memory(), by each process for itself). Before the seal; throws Error.

class SharedMemory {
 public:
  SharedMemory() = default;
  // A new anonymous file of so many bytes, mapped; transparent pages where the reserved ones do not suffice.
  explicit SharedMemory(std::size_t bytes, HugePages pages = HugePages::kOff);
  // Keeps all of it from being swapped out. Throws kMemory where the system refuses.
  void lock() const;
  // Maps a file that another process made.
  explicit SharedMemory(Descriptor file, HugePages pages = HugePages::kOff);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Span<std::byte> memory() const { return {data_, bytes_}; }
  int descriptor() const { return file_.number(); }

 private:
  bool map(HugePages pages) noexcept;

  Descriptor file_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// One descriptor over a connected Unix socket. send: false where the other end is gone. receive waits at most
// timeout_ms; closed descriptor: none came.
bool send_descriptor(int socket, int descriptor) noexcept;
Descriptor receive_descriptor(int socket, int timeout_ms) noexcept;

// How the ranks of a drawing run tell the first one of their pictures, which alone writes images.jsonl: a ring for each
// rank, in memory that they share, which is zero at first.
//
//   DrawnQueue queue(memory, batch, digests);                    // DrawnQueue::bytes() of it
//   while (!queue.push(rank, picture, latents)) ...              // by a rank, once the picture's file is there
//   queue.end(rank);                                             // it draws no more
//   while (queue.front(rank, &entry)) { ...; queue.pop(rank); }  // by the first rank
//
// Sealed: allocates nothing. One writer and one reader for each ring.

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
