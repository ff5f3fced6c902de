// SPDX-License-Identifier: Apache-2.0
// An open file, socket or folder of the system's, closed when its owner goes. No call allocates.
#pragma once

#include <unistd.h>

#include <utility>

namespace bascule {

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

}  // namespace bascule
