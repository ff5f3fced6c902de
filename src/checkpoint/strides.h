// SPDX-License-Identifier: Apache-2.0
// Shapes with strides as files state them: nothing about them is trusted. Extents and strides are not negative, in
// elements.
#pragma once

#include <cstdint>
#include <vector>

namespace bascule {

using Extents = std::vector<std::int64_t>;

// Whether every element of a tensor that begins at element `first` lies within `elements` elements. False on overflow.
bool lies_within(const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t elements);

// Whether the strides are those of row-major order without gaps. The stride of an extent of 1 says nothing.
bool is_contiguous(const Extents& shape, const Extents& strides);

}  // namespace bascule
