// SPDX-License-Identifier: Apache-2.0
// Convolutions of pictures: the plain form, that of doubled pictures, and Winograd's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_tile.h"

namespace bascule {

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
// outside the picture take part as zeros. convolution_bf16 has that of gemm_tile_bf16, in chunks of kGemmChunkBf16, and
// convolution_bf16_tiles that of gemm_tile_bf16_tiles; their x and weight are bf16, or float32 numbers that they round.
// Shapes: y (rows, cols) with stride; x whole pictures; weight (cols, 9 channels) dense; bias (cols) or null.
// Overwrites y. Aliasing: none. cols <= kGemmTileCols. Scratch: kGemmTileScratchBytes, or kConvolutionBf16ScratchBytes,
// 64-byte aligned.
struct Convolution {
  float* y;
  ConstElements x, weight;  // float32 but in bf16
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

// The convolution of convolution.h, with stride 1, of pictures that are enlarged to twice their height and width: less
// than half of its products. Several taps of a window are the same stored pixel, so their weights are added first.
//
// Output pixel (2 i + u, 2 j + v) has a window of four taps: tap 2 a + b is the stored pixel (i + u - 1 + a,
// j + v - 1 + b), and zero outside of the picture. Its weight is the sum of those of the taps 3 dy + dx of
// convolution.h that fall on it, in their order: dy = 0 for a = 0, 1 and 2 for a = 1 where u = 0; 0 and 1 for a = 0, 2
// for a = 1 where u = 1; dx by v and b likewise.

// y of the pixels that are made of the stored lines first_line to before first_line + lines, of all pictures one after
// another: two lines of y each. The arithmetic is that of gemm_tile.h with windows as A and sums of weights as B, depth
// 4 channels, columns numbered tap * channels + channel; each sum of weights is rounded to float32 at every addition.
// doubled_convolution_bf16 has that of gemm_tile_bf16, and doubled_convolution_bf16_tiles that of gemm_tile_bf16_tiles;
// their x and weight are bf16, or float32 numbers that they round;
// the sums are of rounded weights, with subnormal numbers taken as zeros, and are rounded to bf16 at their end. Shapes:
// y (4 pixels, cols) with stride; x (pixels, channels); both of whole pictures; weight (cols, 9 channels) dense; bias
// (cols) or null. Aliasing: none. cols <= kGemmTileCols. Scratch: kGemmTileScratchBytes, or
// kConvolutionBf16ScratchBytes, 64-byte aligned.
struct DoubledConvolution {
  float* y;
  ConstElements x, weight;  // float32 but for doubled_convolution_bf16
  const float* bias;
  std::int64_t y_stride;
  std::int64_t first_line, lines, cols;
  std::int64_t height, width, channels;  // of the stored pictures
  void* scratch;
};

// The convolution of convolution.h, with stride 1, of pictures that are not enlarged, in 16 products of pixels and
// weights where the windows of four output pixels have 36. Source: Lavin and Gray 2015, "Fast Algorithms for
// Convolutional Neural Networks", F(2 x 2, 3 x 3).
//
// A tile is 2 x 2 output pixels; d is the 4 x 4 pixels that they read, of which those outside of the picture are zero,
// and g the 3 x 3 weights of an output column. For each component (i, j) of 4 x 4, with ' for the transpose:
//
//   Y = A' [ (G g G') . (B' d B) ] A
//
//   B' = 1  0 -1  0     G =  1   0   0      A' = 1  1  1  0
//        0  1  1  0         1/2 1/2 1/2          0  1 -1 -1
//        0 -1  1  0         1/2 -1/2 1/2
//        0  1  0 -1          0   0   1

constexpr std::int64_t kWinogradTile = 2;  // output pixels a side
constexpr std::int64_t kWinogradComponents = 16;
constexpr std::int64_t kWinogradCols = 64;

// Tiles first_tile to before first_tile + tiles of all pictures: a picture's tiles lie line by line, the last of a line
// and the last line may have one pixel where another has two.
// Arithmetic: every addition rounds. B' d first, then B; G g first, each row as ((g0 + g2) +- g1) / 2, then G'. A
// component's product over the channels has the arithmetic of gemm_tile.h, without bias. Then A' from the right,
// (m0 + m1) + m2 and (m1 - m2) - m3 of the components of a row, from the left likewise, and the bias is added to that.
// Shapes: y (pixels, cols) with stride, x (pixels, channels), both of whole pictures; weight (cols, 9 channels) dense;
// bias (cols) or null. Overwrites the pixels of these tiles. Aliasing: none. cols <= kWinogradCols. Scratch:
// kWinogradScratchBytes, 64-byte aligned.
struct WinogradConvolution {
  float* y;
  ConstElements x, weight;  // float32
  const float* bias;
  std::int64_t y_stride;
  std::int64_t first_tile, tiles, cols;
  std::int64_t height, width, channels;
  void* scratch;
};

[[gnu::always_inline]] constexpr std::int64_t tiles_of(std::int64_t pixels) {
  return (pixels + kWinogradTile - 1) / kWinogradTile;
}

// Tiles whose products are kept until they are whole.
constexpr std::int64_t kWinogradKept = 252;
// Between the weights of two components, which do not lie a multiple of 4096 bytes apart: their lines would share a set
// of the first-level cache.
constexpr std::int64_t kWinogradGap = 80;
// Holds, for all components: the weights of a chunk of channels, those of a few tiles, and the products of the kept
// ones; weights before they are transformed, and zeros.
constexpr std::size_t kWinogradScratchBytes =
    static_cast<std::size_t>(kWinogradComponents * (kGemmChunk * kWinogradCols + kWinogradGap + 16 * (kGemmChunk + 16) +
                                                    kWinogradKept * kWinogradCols) +
                             (kTaps * 16 + 1) * kGemmChunk) *
    sizeof(float);

}  // namespace bascule
