// SPDX-License-Identifier: Apache-2.0
// Descriptors of the system's, and small files read through them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace bascule {

// An open file, socket or folder of the system's, closed when its owner goes. No call allocates.

class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept : number_(number) {}  // negative: none
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = other.release();
    }
    return *this;
  }

  int number() const noexcept { return number_; }
  bool is_open() const noexcept { return number_ >= 0; }
  // The caller closes it.
  int release() noexcept { return std::exchange(number_, -1); }
  void reset() noexcept {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

// Small files, as the kernel tells about a process in: read into a buffer of the caller's, without an allocation. May
// be called after the seal.

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
