// SPDX-License-Identifier: Apache-2.0
// Cuts one block of memory into arrays, each at a cache line of its own.
#pragma once

#include <cstddef>
#include <new>

#include "src/base/align.h"

namespace bascule {

// Made with nullptr it only counts, so that the code that cuts the arrays also tells how many bytes they take.
class ArrayCutter {
 public:
  // memory: aligned to a cache line and as large as a count of the same arrays says, or nullptr.
  explicit ArrayCutter(std::byte* memory) noexcept : memory_(memory) {}

  // Sets *array to the next `count` elements; leaves it unchanged without memory and where `count` is 0.
  template <typename T, typename Integer>
  void cut(T** array, Integer count) noexcept {
    const auto size = static_cast<std::size_t>(count);
    if (memory_ != nullptr && size > 0) *array = new (memory_ + used_) T[size];
    used_ += align_up(size * sizeof(T), kCacheLine);
  }
  std::size_t used_bytes() const noexcept { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

}  // namespace bascule
