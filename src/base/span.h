// SPDX-License-Identifier: Apache-2.0
// Borrowed runs of elements, memory cut into aligned arrays, and owners that are never copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

#include "src/base/check.h"

namespace bascule {

// Span<T>: a borrowed run of elements. It owns nothing and is copied freely; whoever made the memory keeps it alive.

template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}

  // Span<T> -> Span<const T>.
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  constexpr Span(Span<U> other) : data_(other.data()), size_(other.size()) {}

  Span(std::vector<std::remove_const_t<T>>& values) : data_(values.data()), size_(values.size()) {}
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  Span(const std::vector<U>& values) : data_(values.data()), size_(values.size()) {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr std::size_t size_bytes() const { return size_ * sizeof(T); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }

  constexpr T& operator[](std::size_t i) const {
    BASCULE_DCHECK(i < size_);
    return data_[i];
  }
  constexpr Span first(std::size_t count) const { return subspan(0, count); }
  constexpr Span subspan(std::size_t offset, std::size_t count) const {
    BASCULE_DCHECK(offset <= size_ && count <= size_ - offset);
    return Span(data_ + offset, count);
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kPage = 4096;

// The smallest multiple of `unit` (positive) that is at least `value` (not negative).
template <typename Integer>
constexpr Integer align_up(Integer value, Integer unit) {
  return (value + unit - 1) / unit * unit;
}

template <typename Integer>
constexpr Integer divide_up(Integer value, Integer unit) {
  return (value + unit - 1) / unit;
}

// Cuts one block of memory into arrays, each at a cache line of its own.

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

// The base of what is neither copied nor moved, as others point to it or it ends what it has begun.
struct NonCopyable {
  NonCopyable() = default;
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;
};

}  // namespace bascule
