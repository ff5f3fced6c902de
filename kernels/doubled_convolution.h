// SPDX-License-Identifier: Apache-2.0
// The convolution of convolution.h, with stride 1, of pictures that are enlarged to twice their height and width: less
// than half of its products. Several taps of a window are the same stored pixel, so their weights are added first.
//
// Output pixel (2 i + u, 2 j + v) has a window of four taps: tap 2 a + b is the stored pixel (i + u - 1 + a,
// j + v - 1 + b), and zero outside of the picture. Its weight is the sum of those of the taps 3 dy + dx of
// convolution.h that fall on it, in their order: dy = 0 for a = 0, 1 and 2 for a = 1 where u = 0; 0 and 1 for a = 0, 2
// for a = 1 where u = 1; dx by v and b likewise.
#pragma once

#include <cstdint>

#include "kernels/convolution.h"

namespace bascule {

// y of the pixels that are made of the stored lines first_line to before first_line + lines, of all pictures one after
// another: two lines of y each. The arithmetic is that of gemm_tile.h with windows as A and sums of weights as B, depth
// 4 channels, columns numbered tap * channels + channel; each sum of weights is rounded to float32 at every addition.
// doubled_convolution_bf16 has that of gemm_tile_bf16; its x and weight are bf16, or float32 numbers that it rounds;
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

}  // namespace bascule
