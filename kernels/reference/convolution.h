// SPDX-License-Identifier: Apache-2.0
// Reference for convolution.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

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

template <typename Chain>
void convolution_of(const Convolution& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t o = 0; o < a.cols; ++o) {
      a.y[r * a.y_stride + o] = sum_of_chunks<Chain>(a.bias != nullptr ? a.bias + o : nullptr, window_size(a.pictures),
                                                     WindowFactors{a, r, o});
    }
  }
}
inline void convolution_bf16(const Convolution& a) { convolution_of<Bf16Chain>(a); }
inline void convolution_bf16_tiles(const Convolution& a) { convolution_of<TileChains>(a); }

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

template <typename Chain>
void doubled_convolution_of(const DoubledConvolution& a) {
  for (std::int64_t i = 0; i < 4 * a.cols; ++i) {
    const std::int64_t o = i / 4, u = i % 4 / 2, v = i % 2;
    const std::vector<Number> sums = doubled_weights_bf16(a, u, v, o);
    for (std::int64_t line = a.first_line; line < a.first_line + a.lines; ++line) {
      for (std::int64_t j = 0; j < a.width; ++j) {
        a.y[(((2 * line + u) * a.width + j) * 2 + v) * a.y_stride + o] = sum_of_chunks<Chain>(
            a.bias != nullptr ? a.bias + o : nullptr, 4 * a.channels, DoubledFactors{a, line, u, j, v, sums});
      }
    }
  }
}
inline void doubled_convolution_bf16(const DoubledConvolution& a) { doubled_convolution_of<Bf16Chain>(a); }
inline void doubled_convolution_bf16_tiles(const DoubledConvolution& a) { doubled_convolution_of<TileChains>(a); }

// Reference for convolution.h. See dropout.h on references. In float32 its results are those of the contract
// to the bit.

constexpr int kWinogradPixels[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
constexpr int kWinogradOutputs[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};

// The sum of the numbers whose factor is 1 or -1, the ones with factor 1 first.
template <typename T>
T signed_sum(const int (&factors)[4], const T (&numbers)[4]) {
  T sum(0);
  bool is_first = true;
  for (const int sign : {1, -1}) {
    for (int a = 0; a < 4; ++a) {
      if (factors[a] != sign) continue;
      sum = is_first ? numbers[a] : sign > 0 ? sum + numbers[a] : sum - numbers[a];
      is_first = false;
    }
  }
  return sum;
}

template <typename T>
T row_of_g(std::int64_t i, T first, T second, T third) {
  if (i == 0 || i == 3) return i == 0 ? first : third;
  return i == 1 ? (first + third + second) * T(0.5) : (first + third - second) * T(0.5);
}

// A component of the product of a tile and an output column: its factors, channel by channel.
template <typename T>
struct WinogradFactors {
  std::vector<T> pixels, weights;
  Number a(std::int64_t c) const { return {static_cast<float>(pixels[static_cast<std::size_t>(c)]), 0}; }
  Number b(std::int64_t c) const { return {static_cast<float>(weights[static_cast<std::size_t>(c)]), 0}; }
};

template <typename T>
WinogradFactors<T> winograd_factors(const WinogradConvolution& a, const T* x, const T* weight, std::int64_t tile,
                                    std::int64_t i, std::int64_t j) {
  const std::int64_t across = tiles_of(a.width), down = tiles_of(a.height);
  const std::int64_t top = tile / across % down * 2, left = tile % across * 2, sample = tile / across / down;
  WinogradFactors<T> factors;
  for (std::int64_t c = 0; c < a.channels; ++c) {
    T pixels[4], columns[3];
    for (std::int64_t q = 0; q < 4; ++q) {
      T column[4];
      for (std::int64_t p = 0; p < 4; ++p) {
        const std::int64_t from_y = top + p - 1, from_x = left + q - 1;
        const bool is_inside = from_y >= 0 && from_y < a.height && from_x >= 0 && from_x < a.width;
        column[p] = is_inside ? x[((sample * a.height + from_y) * a.width + from_x) * a.channels + c] : T(0);
      }
      pixels[q] = signed_sum(kWinogradPixels[i], column);
    }
    for (std::int64_t q = 0; q < 3; ++q) {
      const T* const g = weight + q * a.channels + c;
      columns[q] = row_of_g(i, g[0], g[3 * a.channels], g[6 * a.channels]);
    }
    factors.pixels.push_back(signed_sum(kWinogradPixels[j], pixels));
    factors.weights.push_back(row_of_g(j, columns[0], columns[1], columns[2]));
  }
  return factors;
}

inline float product_of(const WinogradFactors<float>& factors) {
  return sum_of_chunks<Float32Chain>(nullptr, static_cast<std::int64_t>(factors.pixels.size()), factors);
}
inline double product_of(const WinogradFactors<double>& factors) {
  double sum = 0.0;
  for (std::size_t c = 0; c < factors.pixels.size(); ++c) sum += factors.pixels[c] * factors.weights[c];
  return sum;
}

template <typename T>
void winograd_convolution(T* y, const T* x, const T* weight, const T* bias, const WinogradConvolution& a) {
  const std::int64_t across = tiles_of(a.width), down = tiles_of(a.height);
  for (std::int64_t n = 0; n < a.tiles * a.cols; ++n) {
    const std::int64_t tile = a.first_tile + n / a.cols, o = n % a.cols;
    T products[16];
    for (std::int64_t k = 0; k < 16; ++k)
      products[k] = product_of(winograd_factors(a, x, weight + o * kTaps * a.channels, tile, k / 4, k % 4));
    for (std::int64_t out = 0; out < 4; ++out) {
      const std::int64_t u = out / 2, v = out % 2, line = tile / across % down * 2 + u, col = tile % across * 2 + v;
      if (line >= a.height || col >= a.width) continue;
      T rows[4];
      for (std::int64_t i = 0; i < 4; ++i) {
        const T row[4] = {products[4 * i], products[4 * i + 1], products[4 * i + 2], products[4 * i + 3]};
        rows[i] = signed_sum(kWinogradOutputs[v], row);
      }
      const T sum = signed_sum(kWinogradOutputs[u], rows);
      y[((tile / across / down * a.height + line) * a.width + col) * a.y_stride + o] =
          bias != nullptr ? bias[o] + sum : sum;
    }
  }
}

}  // namespace bascule::reference
