// SPDX-License-Identifier: Apache-2.0
// Reference for winograd_convolution.h. See dropout.h on references. In float32 its results are those of the contract
// to the bit.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/reference/gemm_tile.h"
#include "kernels/winograd_convolution.h"

namespace bascule::reference {

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
