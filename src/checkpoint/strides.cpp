// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/strides.h"

#include <algorithm>

namespace bascule {

bool lies_within(const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t elements) {
  if (first < 0 || first > elements) return false;
  std::int64_t count = 1;
  std::int64_t last = first;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(count, shape[d], &count)) return false;
    if (shape[d] == 0) continue;
    if (__builtin_mul_overflow(shape[d] - 1, strides[d], &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return count == 0 || last < elements;
}

bool is_contiguous(const Extents& shape, const Extents& strides) {
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] > 1 && strides[d] != expected) return false;
    expected *= std::max<std::int64_t>(shape[d], 1);
  }
  return true;
}

}  // namespace bascule
