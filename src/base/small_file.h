// SPDX-License-Identifier: Apache-2.0
// Small files, as the kernel tells about a process in: read into a buffer of the caller's, without an allocation. May
// be called after the seal.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>

namespace bascule {

// The text of a file, as much as fits, and a 0 behind it; false, and an empty text, where it cannot be read.
template <std::size_t Bytes>
[[nodiscard]] bool read_small_file(const char* path, char (&text)[Bytes]) noexcept {
  text[0] = '\0';
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, Bytes - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = '\0';
  return true;
}

}  // namespace bascule
