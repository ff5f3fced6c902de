// SPDX-License-Identifier: Apache-2.0
// Convolution of pictures with a 3 x 3 window and a border of one zero pixel, and what its gradients are made of.
// Source: torch.nn.functional.conv2d (kernel 3, padding 1); torch.nn.functional.interpolate (mode "nearest").
//
// Pictures are rows: (samples * height * width, channels), a sample's pixels row by row. They may be enlarged first:
// pixel (y, x) of the enlarged picture is pixel (y * height / enlarged_height, x * width / enlarged_width), rounded
// down. The enlarged picture is stored nowhere.
//
// The window of output pixel (y, x) has nine taps; tap 3 dy + dx is pixel (stride y + dy - 1, stride x + dx - 1) of the
// (enlarged) picture, and zero outside of it. Columns of windows, and of weights, are numbered tap * channels +
// channel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_tile.h"

namespace bascule {

constexpr std::int64_t kTaps = 9;
constexpr std::size_t kConvolutionBf16ScratchBytes = static_cast<std::size_t>(kGemmTilePackedBf16) * sizeof(float);

struct Pictures {
  std::int64_t height, width;  // as they are stored
  std::int64_t channels;
  std::int64_t enlarged_height, enlarged_width;  // height and width where they are not enlarged
  std::int64_t stride;                           // 1 or 2
};

// Inlined for the reason that elements.h gives.
[[gnu::always_inline]] constexpr std::int64_t out_height(const Pictures& p) {
  return (p.enlarged_height - 1) / p.stride + 1;
}
[[gnu::always_inline]] constexpr std::int64_t out_width(const Pictures& p) {
  return (p.enlarged_width - 1) / p.stride + 1;
}
[[gnu::always_inline]] constexpr std::int64_t window_size(const Pictures& p) { return kTaps * p.channels; }

// y[r,o] = bias[o] + sum_d window[first_row + r, d] weight[o,d]
// The arithmetic is that of gemm_tile.h with windows as A, depth 9 channels: for each element a chain of fused
// multiply-adds over a chunk of kGemmChunk columns, and the sums of the chunks added in order, first to the bias. Taps
// outside the picture take part as zeros. convolution_bf16 has that of gemm_tile_bf16, in chunks of kGemmChunkBf16; its
// x and weight are bf16, or float32 numbers that it rounds. Shapes: y (rows, cols) with stride; x whole pictures;
// weight (cols, 9 channels) dense; bias (cols) or null. Overwrites y. Aliasing: none. cols <= kGemmTileCols. Scratch:
// kGemmTileScratchBytes, or kConvolutionBf16ScratchBytes, 64-byte aligned.
struct Convolution {
  float* y;
  ConstElements x, weight;  // float32 but for convolution_bf16
  const float* bias;
  std::int64_t y_stride;
  std::int64_t first_row, rows, cols;  // rows of all samples' outputs
  Pictures pictures;
  void* scratch;
};

// columns[r,c] = window[first_row + r, first_col + c]
// Shapes: columns (rows, cols) with stride; x whole pictures. Overwrites columns. Aliasing: none.
struct WindowColumns {
  float* columns;
  const float* x;
  std::int64_t stride;
  std::int64_t first_row, rows;
  std::int64_t first_col, cols;
  Pictures pictures;
};

// The reverse: d_x at the pixel and channel of window[first_row + r, first_col + c] += columns[r,c], by r in order.
// Shapes: columns (rows, cols) with stride, all of one tap; d_x whole pictures. Aliasing: none.
struct AddWindowColumns {
  float* d_x;
  const float* columns;
  std::int64_t stride;
  std::int64_t first_row, rows;
  std::int64_t first_col, cols;
  Pictures pictures;
};

}  // namespace bascule
