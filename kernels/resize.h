// SPDX-License-Identifier: Apache-2.0
// Resampling of decoded pictures: horizontal pass, vertical pass, and the way out to normalised planes. Pixels inside
// are RGBX: four values a pixel, the fourth carried along and never read at the end. The caller keeps the rows of the
// vertical pass in a ring, so that a picture goes through the cache once.
//
// One axis is described by its taps: output i is a weighted sum of the inputs first[i] .. first[i] + taps - 1; where an
// output needs fewer, weights are 0. So a pass may read past the last pixel of a row, and passes work in whole vectors:
// RGBX rows, in and out, must lie in memory that reaches kResizeSlackBytes beyond their last value; what lies there is
// read, without effect, and behind an output row it is overwritten. Rows of the planes are written exactly. Kernels
// allocate nothing, throw nothing and read no globals; nothing overlaps; all of them overwrite.
#pragma once

#include <cstdint>

#include "kernels/isa.h"

namespace bascule {

constexpr std::int64_t kResizeSlackBytes = 256;
constexpr std::int64_t kByteTapUnit = 8;   // `taps` of a horizontal pass in bytes is a multiple of this
constexpr std::int64_t kFloatTapUnit = 4;  // `taps` of a horizontal pass in float is a multiple of this

// out[r,i,c] = clip((2^(shift-1) + sum_t weights[i,t] in[r, first[i]+t, c]) >> shift, 0, 255)
// Source: torchvision's resize of uint8 pictures (ATen, UpSampleKernelAVXAntialias.h), horizontal pass.
// Shapes: out (rows, out_pixels, 4), in (rows, ., 4), strides in bytes; first (out_pixels); weights (out_pixels, taps)
// dense. Requires: taps a multiple of kByteTapUnit, 1 <= shift <= 22, sums within 31 bits. Numerics: exact.
struct ResampleRowsBytes {
  std::uint8_t* out;
  const std::uint8_t* in;
  const std::int32_t* first;
  const std::int16_t* weights;
  std::int64_t rows, out_pixels, taps;
  std::int64_t out_stride, in_stride;
  int shift;
};

// out[x] = clip((2^(shift-1) + sum_t weights[t] rows[t][x]) >> shift, 0, 255)   for 0 <= x < values
// The vertical pass, one output row. Shapes: rows (taps) pointers to `values` bytes; weights (taps). Numerics: exact.
struct BlendRowsBytes {
  std::uint8_t* out;
  const std::uint8_t* const* rows;
  const std::int16_t* weights;
  std::int64_t taps, values;
  int shift;
};

// out[c][x] = (in[x,c] - subtract[c]) / divide[c]   for c < 3, 0 <= x < pixels
// Source: the fused rescale and normalise of Transformers' torchvision back end. Shapes: in (pixels, 4) bytes; out
// three rows of floats. Numerics: one float32 subtraction, one float32 division.
struct BytesToPlanes {
  float* out[3];
  const std::uint8_t* in;
  std::int64_t pixels;
  float subtract[3], divide[3];
};

// out[r,i,c] = sum_t weights[i,t] in[r, first[i]+t, c]      in float32, nothing rounded to bytes
// Source: torchvision's antialiased bicubic resize of float pictures. Shapes and strides as ResampleRowsBytes; strides
// of `in` in bytes, of `out` in floats. Requires: taps a multiple of kFloatTapUnit. Numerics: lane t mod 4 sums its
// taps in order with fma; then (0+2) + (1+3).
struct ResampleRowsFloat {
  float* out;
  const std::uint8_t* in;
  const std::int32_t* first;
  const float* weights;
  std::int64_t rows, out_pixels, taps;
  std::int64_t out_stride, in_stride;
};

// out[c][x] = fma(sum_t weights[t] rows[t][x,c], scale[c], offset[c])   for c < 3, 0 <= x < pixels
// The vertical pass and the normalising in one. Shapes: rows (taps) pointers to (pixels, 4) floats; out three rows of
// floats. Numerics: taps summed in order with fma from 0.
struct BlendToPlanes {
  float* out[3];
  const float* const* rows;
  const float* weights;
  std::int64_t taps, pixels;
  float scale[3], offset[3];
};

struct ResizeKernels {
  void (*resample_rows_bytes)(const ResampleRowsBytes&);
  void (*blend_rows_bytes)(const BlendRowsBytes&);
  void (*bytes_to_planes)(const BytesToPlanes&);
  void (*resample_rows_float)(const ResampleRowsFloat&);
  void (*blend_to_planes)(const BlendToPlanes&);
};

// The kernels of an instruction set that isa_supported().
const ResizeKernels& resize_kernels_for(Isa isa);

}  // namespace bascule
