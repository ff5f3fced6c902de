// SPDX-License-Identifier: Apache-2.0
// Tensors whose dimensions lie in memory in another order than in their file: a convolution's (out, in, height, width)
// as rows of (out, height, width, in).
#pragma once

#include <cstdint>
#include <vector>

#include "src/checkpoint/strides.h"

namespace bascule {

// The file's dimension that is dimension 0, 1, ... in memory: each of them once. Empty: the file's order.
using DimensionOrder = std::vector<int>;

// Elements in memory from one index of each of the file's dimensions to the next.
Extents strides_in_memory(const Extents& shape, const DimensionOrder& order);

// Elements [first, first + count) of the tensor as its file has them, into memory and out of it. base: element 0 in
// memory; values: `count` of them. Allocates nothing.
void scatter(float* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const float* values) noexcept;
void scatter(std::uint16_t* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const std::uint16_t* values) noexcept;
void gather(float* values, const float* base, const Extents& shape, const Extents& strides, std::int64_t first,
            std::int64_t count) noexcept;

}  // namespace bascule
