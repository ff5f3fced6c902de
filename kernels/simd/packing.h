// SPDX-License-Identifier: Apache-2.0
// Copies into packed form: rows of whole vectors, zero where the source has no column.
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

// `count` rounded up to whole vectors.
inline std::int64_t whole_vectors(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

// packed[r,c] = x[r,c]; c runs to the next multiple of 16.
inline void pack_rows(float* packed, std::int64_t packed_stride, ConstElements x, std::int64_t x_stride,
                      std::int64_t rows, std::int64_t cols) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for_lanes(
        cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(packed + r * packed_stride + c, load(x, r * x_stride + c, lanes));
        });
  }
}
// packed[c,r] = factor x[r,c]; r runs to the next multiple of 16. Not scaled: the bits of x, whatever they stand for.
template <bool kScaled = true>
inline void pack_transposed(float* packed, std::int64_t packed_stride, const float* x, std::int64_t x_stride,
                            std::int64_t rows, std::int64_t cols, float factor = 1.0f) {
  const auto scaled = [factor](float element) { return kScaled ? factor * element : element; };
  const std::int64_t whole_cols = cols / 8 * 8;
  for (std::int64_t r = 0; r < whole_vectors(rows); r += 8) {
    float eight[8 * 8] = {};  // the last rows where there are fewer, and zeros
    for (std::int64_t c = 0; c < whole_cols; c += 8) {
      float* const out = packed + c * packed_stride + r;
      if (r + 8 <= rows) {
        transpose_eight<kScaled>(out, packed_stride, x + r * x_stride + c, x_stride, factor);
        continue;
      }
      for (std::int64_t i = 0; r + i < rows; ++i) {
        for (std::int64_t j = 0; j < 8; ++j) eight[i * 8 + j] = x[(r + i) * x_stride + c + j];
      }
      transpose_eight<kScaled>(out, packed_stride, eight, 8, factor);
    }
    for (std::int64_t c = whole_cols; c < cols; ++c) {
      for (std::int64_t i = r; i < r + 8; ++i)
        packed[c * packed_stride + i] = i < rows ? scaled(x[i * x_stride + c]) : 0.0f;
    }
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
