// SPDX-License-Identifier: Apache-2.0
// Reference for convolution.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/convolution.h"
#include "kernels/reference/gemm_tile.h"

namespace bascule::reference {

// The element of x that stands at a column of the window of an output row; -1: none, which is zero.
inline std::int64_t window_element(const Pictures& p, std::int64_t row, std::int64_t col) {
  const std::int64_t tap = col / p.channels, outputs = out_height(p) * out_width(p);
  const std::int64_t sample = row / outputs, y = row % outputs / out_width(p), x = row % out_width(p);
  const std::int64_t from_y = p.stride * y + tap / 3 - 1, from_x = p.stride * x + tap % 3 - 1;
  if (from_y < 0 || from_y >= p.enlarged_height || from_x < 0 || from_x >= p.enlarged_width) return -1;
  const std::int64_t stored_y = from_y * p.height / p.enlarged_height, stored_x = from_x * p.width / p.enlarged_width;
  return ((sample * p.height + stored_y) * p.width + stored_x) * p.channels + col % p.channels;
}

// One sum, in the order of the columns, without chunks.
template <typename T>
void convolution(T* y, const T* x, const T* weight, const T* bias, const Convolution& a) {
  const std::int64_t depth = window_size(a.pictures);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t o = 0; o < a.cols; ++o) {
      T sum = bias != nullptr ? bias[o] : T(0);
      for (std::int64_t d = 0; d < depth; ++d) {
        const std::int64_t from = window_element(a.pictures, a.first_row + r, d);
        if (from >= 0) sum += x[from] * weight[o * depth + d];
      }
      y[r * a.y_stride + o] = sum;
    }
  }
}

// To the bit.
struct WindowFactors {
  const Convolution& of;
  std::int64_t row, col;  // of y
  Number a(std::int64_t d) const {
    const std::int64_t from = window_element(of.pictures, of.first_row + row, d);
    return from >= 0 ? number_at(of.x, from) : Number{};
  }
  Number b(std::int64_t d) const { return number_at(of.weight, col * window_size(of.pictures) + d); }
};

inline void convolution_bf16(const Convolution& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t o = 0; o < a.cols; ++o) {
      a.y[r * a.y_stride + o] = sum_of_chunks<Bf16Chain>(a.bias != nullptr ? a.bias + o : nullptr,
                                                         window_size(a.pictures), WindowFactors{a, r, o});
    }
  }
}

template <typename T>
void window_columns(T* columns, const T* x, const WindowColumns& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t from = window_element(a.pictures, a.first_row + r, a.first_col + c);
      columns[r * a.stride + c] = from >= 0 ? x[from] : T(0);
    }
  }
}

template <typename T>
void add_window_columns(T* d_x, const T* columns, const AddWindowColumns& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t to = window_element(a.pictures, a.first_row + r, a.first_col + c);
      if (to >= 0) d_x[to] += columns[r * a.stride + c];
    }
  }
}

}  // namespace bascule::reference
