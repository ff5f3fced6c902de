// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a node share: an anonymous file (memfd) without a name anywhere, so that nothing outlives
// the processes, handed from one to another over a Unix socket. Page-aligned, zero at first; its pages become resident
// where they are touched (touch_memory(), by each process for itself). Before the seal; throws Error.
#pragma once

#include <cstddef>

#include "src/base/descriptor.h"
#include "src/base/mapped_memory.h"
#include "src/base/span.h"

namespace bascule {

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

}  // namespace bascule
