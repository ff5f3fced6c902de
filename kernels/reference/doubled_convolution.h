// SPDX-License-Identifier: Apache-2.0
// Reference for doubled_convolution.h. See dropout.h on references.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/doubled_convolution.h"
#include "kernels/reference/gemm_tile.h"

namespace bascule::reference {

// Where a column of the window of output pixel (2 i + u, 2 j + v) of a line lies in x; -1: nowhere, it is zero.
inline std::int64_t doubled_window_element(const DoubledConvolution& a, std::int64_t line, std::int64_t u,
                                           std::int64_t j, std::int64_t v, std::int64_t col) {
  const std::int64_t tap = col / a.channels, from_line = line % a.height + u - 1 + tap / 2, from = j + v - 1 + tap % 2;
  if (from_line < 0 || from_line >= a.height || from < 0 || from >= a.width) return -1;
  return ((line / a.height * a.height + from_line) * a.width + from) * a.channels + col % a.channels;
}

// Whether a column of such a window has the weight of tap t. That tap of output line 2 i + u is line 2 i + u + t / 3 -
// 1 of the enlarged picture, made of half of it rounded down.
inline bool is_tap_of(const DoubledConvolution& a, std::int64_t u, std::int64_t v, std::int64_t col, std::int64_t t) {
  const std::int64_t tap = col / a.channels;
  return (u + t / 3 + 1) / 2 - 1 == u - 1 + tap / 2 && (v + t % 3 + 1) / 2 - 1 == v - 1 + tap % 2;
}

// The sum of the weights of one output column that a column of such a window has.
template <typename T>
T doubled_weight(const T* weight, const DoubledConvolution& a, std::int64_t u, std::int64_t v, std::int64_t col) {
  T sum(0);
  for (std::int64_t t = 0; t < kTaps; ++t) {
    if (is_tap_of(a, u, v, col, t)) sum += weight[t * a.channels + col % a.channels];
  }
  return sum;
}

template <typename T>
void doubled_convolution(T* y, const T* x, const T* weight, const T* bias, const DoubledConvolution& a) {
  for (std::int64_t line = a.first_line; line < a.first_line + a.lines; ++line) {
    for (std::int64_t i = 0; i < 4 * a.width; ++i) {
      const std::int64_t u = i / (2 * a.width), j = i % (2 * a.width) / 2, v = i % 2;
      for (std::int64_t o = 0; o < a.cols; ++o) {
        T sum = bias != nullptr ? bias[o] : T(0);
        for (std::int64_t d = 0; d < 4 * a.channels; ++d) {
          const std::int64_t from = doubled_window_element(a, line, u, j, v, d);
          if (from >= 0) sum += x[from] * doubled_weight(weight + o * kTaps * a.channels, a, u, v, d);
        }
        y[(line * 4 * a.width + i) * a.y_stride + o] = sum;
      }
    }
  }
}

// To the bit. One kind of output pixels of one column.
struct DoubledFactors {
  const DoubledConvolution& of;
  std::int64_t line, u, j, v;
  const std::vector<Number>& sums;  // of weights
  Number a(std::int64_t d) const {
    const std::int64_t from = doubled_window_element(of, line, u, j, v, d);
    return from >= 0 ? number_at(of.x, from) : Number{};
  }
  Number b(std::int64_t d) const { return sums[static_cast<std::size_t>(d)]; }
};

inline std::vector<Number> doubled_weights_bf16(const DoubledConvolution& a, std::int64_t u, std::int64_t v,
                                                std::int64_t col) {
  std::vector<Number> sums;
  for (std::int64_t d = 0; d < 4 * a.channels; ++d) {
    float sum = -0.0f;
    for (std::int64_t t = 0; t < kTaps; ++t) {
      const std::int64_t at = (col * kTaps + t) * a.channels + d % a.channels;
      if (is_tap_of(a, u, v, d, t)) sum = Bf16Chain::add(sum, Bf16Chain::operand(number_at(a.weight, at)));
    }
    sums.push_back(number_at(&sum, 0));
  }
  return sums;
}

inline void doubled_convolution_bf16(const DoubledConvolution& a) {
  for (std::int64_t i = 0; i < 4 * a.cols; ++i) {
    const std::int64_t o = i / 4, u = i % 4 / 2, v = i % 2;
    const std::vector<Number> sums = doubled_weights_bf16(a, u, v, o);
    for (std::int64_t line = a.first_line; line < a.first_line + a.lines; ++line) {
      for (std::int64_t j = 0; j < a.width; ++j) {
        a.y[(((2 * line + u) * a.width + j) * 2 + v) * a.y_stride + o] = sum_of_chunks<Bf16Chain>(
            a.bias != nullptr ? a.bias + o : nullptr, 4 * a.channels, DoubledFactors{a, line, u, j, v, sums});
      }
    }
  }
}

}  // namespace bascule::reference
