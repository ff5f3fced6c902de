// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a node share: an anonymous file (memfd) without a name anywhere, so that nothing outlives
// the processes, handed from one to another over a Unix socket. Page-aligned, zero at first. Before the seal; throws
// Error.
#pragma once

#include <cstddef>

#include "src/base/descriptor.h"

namespace bascule {

class SharedMemory {
 public:
  SharedMemory() = default;
  // A new anonymous file of so many bytes, mapped.
  explicit SharedMemory(std::size_t bytes);
  // Before any page is touched: asks for large ones, where the system has them for shared memory.
  void advise_huge_pages() const noexcept;
  // Keeps all of it from being swapped out. Throws kMemory where the system refuses.
  void lock() const;
  // Maps a file that another process made.
  explicit SharedMemory(Descriptor file);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int descriptor() const { return file_.number(); }

  // Makes the pages of a range resident and maps them here, so that no later access faults. Throws kMemory where the
  // system refuses.
  void populate(std::size_t offset, std::size_t bytes) const;

 private:
  void map();

  Descriptor file_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// One descriptor over a connected Unix socket. send: false where the other end is gone. receive waits at most
// timeout_ms; closed descriptor: none came.
bool send_descriptor(int socket, int descriptor) noexcept;
Descriptor receive_descriptor(int socket, int timeout_ms) noexcept;

}  // namespace bascule
