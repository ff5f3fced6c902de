// SPDX-License-Identifier: Apache-2.0
// The definition of right for kernels/resize.h: plain loops. `Number` is the type that the float passes compute in.
#pragma once

#include <cstdint>

#include "kernels/resize.h"

namespace bascule::reference {

inline std::uint8_t rounded_byte(std::int32_t sum, int shift) {
  const std::int32_t value = (sum + (1 << (shift - 1))) >> shift;
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

inline void resample_rows_bytes(const ResampleRowsBytes& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t i = 0; i < a.out_pixels; ++i) {
      const std::uint8_t* const pixel = a.in + r * a.in_stride + 4 * a.first[i];
      for (std::int64_t c = 0; c < 4; ++c) {
        std::int32_t sum = 0;
        for (std::int64_t t = 0; t < a.taps; ++t) sum += a.weights[i * a.taps + t] * pixel[4 * t + c];
        a.out[r * a.out_stride + 4 * i + c] = rounded_byte(sum, a.shift);
      }
    }
  }
}

inline void blend_rows_bytes(const BlendRowsBytes& a) {
  for (std::int64_t x = 0; x < a.values; ++x) {
    std::int32_t sum = 0;
    for (std::int64_t t = 0; t < a.taps; ++t) sum += a.weights[t] * a.rows[t][x];
    a.out[x] = rounded_byte(sum, a.shift);
  }
}

inline void bytes_to_planes(const BytesToPlanes& a) {
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t x = 0; x < a.pixels; ++x) {
      a.out[c][x] = (static_cast<float>(a.in[4 * x + c]) - a.subtract[c]) / a.divide[c];
    }
  }
}

template <typename Number = float>
void resample_rows_float(const ResampleRowsFloat& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t i = 0; i < a.out_pixels; ++i) {
      const std::uint8_t* const pixel = a.in + r * a.in_stride + 4 * a.first[i];
      for (std::int64_t c = 0; c < 4; ++c) {
        Number sum = 0;
        for (std::int64_t t = 0; t < a.taps; ++t) {
          sum += static_cast<Number>(a.weights[i * a.taps + t]) * static_cast<Number>(pixel[4 * t + c]);
        }
        a.out[r * a.out_stride + 4 * i + c] = static_cast<float>(sum);
      }
    }
  }
}

template <typename Number = float>
void blend_to_planes(const BlendToPlanes& a) {
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t x = 0; x < a.pixels; ++x) {
      Number sum = 0;
      for (std::int64_t t = 0; t < a.taps; ++t) {
        sum += static_cast<Number>(a.weights[t]) * static_cast<Number>(a.rows[t][4 * x + c]);
      }
      a.out[c][x] = static_cast<float>(sum * static_cast<Number>(a.scale[c]) + static_cast<Number>(a.offset[c]));
    }
  }
}

}  // namespace bascule::reference
