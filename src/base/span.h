// SPDX-License-Identifier: Apache-2.0
// Span<T>: a borrowed run of elements. It owns nothing and is copied freely; whoever made the memory keeps it alive.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "src/base/check.h"

namespace bascule {

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

}  // namespace bascule
