// SPDX-License-Identifier: Apache-2.0
// Resampling of RGBX rows. Horizontal passes take four rows at once: weights and positions are read once for all, and
// the four partial sums of a pixel's channels are added up for four rows in one tree.
#include "kernels/resize.h"

#include <cstdint>

#include "kernels/lanes/lanes_u8.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t kRowsAtOnce = 4;
constexpr std::int64_t kPixelsAtOnce = 4;   // outputs of a row that leave together, as bytes
constexpr std::int64_t kColumnValues = 32;  // of a Columns
constexpr std::int64_t kChannels = 4;

// Rows first .. first + 3, the last one again where there are fewer: it is then computed twice, to the same place.
template <typename T>
struct FourRows {
  T* row[kRowsAtOnce];
};
template <typename T>
inline FourRows<T> four_rows(T* data, std::int64_t stride, std::int64_t first, std::int64_t rows) {
  FourRows<T> four;
  for (std::int64_t k = 0; k < kRowsAtOnce; ++k)
    four.row[k] = data + (first + k < rows ? first + k : rows - 1) * stride;
  return four;
}

// Output i of four rows, before rounding: quarter k is the pixel of row k.
[[gnu::always_inline]] inline u32x16 byte_pixel(const ResampleRowsBytes& a, const FourRows<const std::uint8_t>& in,
                                                std::int64_t i, u32x16 half) {
  const std::int16_t* const weights = a.weights + i * a.taps;
  const std::int64_t at = kChannels * a.first[i];
  u32x16 sums[kRowsAtOnce] = {set_bits(0), set_bits(0), set_bits(0), set_bits(0)};
  for (std::int64_t t = 0; t < a.taps; t += kByteTapUnit) {
    const Pairs w = weight_pairs(weights + t);
    for (std::int64_t k = 0; k < kRowsAtOnce; ++k)
      sums[k] = multiply_add(sums[k], pixel_pairs(in.row[k] + at + kChannels * t), w);
  }
  return quarter_sums(sums[0], sums[1], sums[2], sums[3]) + half;
}

void resample_rows_bytes(const ResampleRowsBytes& a) {
  const u32x16 half = set_bits(std::uint32_t{1} << (a.shift - 1));
  const std::int64_t last = a.out_pixels - 1;
  for (std::int64_t r = 0; r < a.rows; r += kRowsAtOnce) {
    const FourRows<const std::uint8_t> in = four_rows(a.in, a.in_stride, r, a.rows);
    FourRows<std::uint8_t> out = four_rows(a.out, a.out_stride, r, a.rows);
    for (std::int64_t i = 0; i < a.out_pixels; i += kPixelsAtOnce) {
      const u32x16 p0 = byte_pixel(a, in, i, half);
      const u32x16 p1 = byte_pixel(a, in, i + 1 < last ? i + 1 : last, half);
      const u32x16 p2 = byte_pixel(a, in, i + 2 < last ? i + 2 : last, half);
      const u32x16 p3 = byte_pixel(a, in, i + 3 < last ? i + 3 : last, half);
      store_pixels(out.row, p0, p1, p2, p3, a.shift);
      for (std::uint8_t*& row : out.row) row += kChannels * kPixelsAtOnce;
    }
  }
}

void blend_rows_bytes(const BlendRowsBytes& a) {
  for (std::int64_t x = 0; x < a.values; x += kColumnValues) {
    Columns sum = set_columns(1 << (a.shift - 1));
    std::int64_t t = 0;
    for (; t + 1 < a.taps; t += 2)
      sum = multiply_add(sum, a.rows[t] + x, a.rows[t + 1] + x, a.weights[t], a.weights[t + 1]);
    if (t < a.taps) sum = multiply_add(sum, a.rows[t] + x, a.rows[t] + x, a.weights[t], 0);
    store_bytes(a.out + x, sum, a.shift);
  }
}

void bytes_to_planes(const BytesToPlanes& a) {
  const f32x16 subtract[3] = {set(a.subtract[0]), set(a.subtract[1]), set(a.subtract[2])};
  const f32x16 divide[3] = {set(a.divide[0]), set(a.divide[1]), set(a.divide[2])};
  for_lanes(
      a.pixels, [&](auto lanes, std::int64_t x) __attribute__((always_inline)) {
        const u32x16 pixels = load_pixels(a.in + kChannels * x);
        store(a.out[0] + x, lanes, (channel<0>(pixels) - subtract[0]) / divide[0]);
        store(a.out[1] + x, lanes, (channel<1>(pixels) - subtract[1]) / divide[1]);
        store(a.out[2] + x, lanes, (channel<2>(pixels) - subtract[2]) / divide[2]);
      });
}

void resample_rows_float(const ResampleRowsFloat& a) {
  for (std::int64_t r = 0; r < a.rows; r += kRowsAtOnce) {
    const FourRows<const std::uint8_t> in = four_rows(a.in, a.in_stride, r, a.rows);
    FourRows<float> out = four_rows(a.out, a.out_stride, r, a.rows);
    const float* weights = a.weights;
    for (std::int64_t i = 0; i < a.out_pixels; ++i) {
      const std::int64_t at = kChannels * a.first[i];
      f32x16 sums[kRowsAtOnce] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
      for (std::int64_t t = 0; t < a.taps; t += kFloatTapUnit, weights += kFloatTapUnit) {
        const f32x16 w = spread(weights);
        for (std::int64_t k = 0; k < kRowsAtOnce; ++k)
          sums[k] = fma(pixels_to_float(in.row[k] + at + kChannels * t), w, sums[k]);
      }
      store_quarters(out.row, quarter_sums(sums[0], sums[1], sums[2], sums[3]));
      for (float*& row : out.row) row += kChannels;
    }
  }
}

void blend_to_planes(const BlendToPlanes& a) {
  const f32x16 scale[3] = {set(a.scale[0]), set(a.scale[1]), set(a.scale[2])};
  const f32x16 offset[3] = {set(a.offset[0]), set(a.offset[1]), set(a.offset[2])};
  for_lanes(
      a.pixels, [&](auto lanes, std::int64_t x) __attribute__((always_inline)) {
        f32x16 sums[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
        for (std::int64_t t = 0; t < a.taps; ++t) {
          const f32x16 w = set(a.weights[t]);
          const float* const row = a.rows[t] + kChannels * x;
          for (std::int64_t k = 0; k < 4; ++k) sums[k] = fma(load(row + kLanes * k), w, sums[k]);
        }
        const Planes planes = deinterleave(sums[0], sums[1], sums[2], sums[3]);
        for (std::int64_t c = 0; c < 3; ++c) store(a.out[c] + x, lanes, fma(planes.channels[c], scale[c], offset[c]));
      });
}

}  // namespace

extern const ResizeKernels kResizeKernels;
const ResizeKernels kResizeKernels = {resample_rows_bytes, blend_rows_bytes, bytes_to_planes, resample_rows_float,
                                      blend_to_planes};

}  // namespace bascule::BASCULE_ISA
