// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule {

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

}  // namespace bascule
