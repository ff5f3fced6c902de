// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution.h"

#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_windows.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void convolution(const Convolution& a) { convolve<Float32Steps>(a); }

void window_columns(const WindowColumns& a) {
  Window window(a.pictures, a.first_row);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    float* const row = a.columns + r * a.stride;
    for_runs(a.x, a.pictures, window, a.first_col, a.cols,
             [&](ConstElements from, std::int64_t done, std::int64_t count) {
               from ? copy_row(row + done, from.float32(), count) : fill_row(row + done, count, 0.0f);
             });
    window.advance();
  }
}

void add_window_columns(const AddWindowColumns& a) {
  Window window(a.pictures, a.first_row);
  const std::int64_t tap = a.first_col / a.pictures.channels, channel = a.first_col % a.pictures.channels;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int64_t pixel = window.pixel(tap);
    if (pixel >= 0) add_to_row(a.d_x + pixel * a.pictures.channels + channel, a.columns + r * a.stride, a.cols);
    window.advance();
  }
}

}  // namespace bascule::BASCULE_ISA
