// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution.h"

namespace bascule {

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
// Of all components: the weights of a chunk of channels, those of a few tiles, and the products of the kept ones;
// weights before they are transformed, and zeros.
constexpr std::size_t kWinogradScratchBytes =
    static_cast<std::size_t>(kWinogradComponents * (kGemmChunk * kWinogradCols + kWinogradGap + 16 * (kGemmChunk + 16) +
                                                    kWinogradKept * kWinogradCols) +
                             (kTaps * 16 + 1) * kGemmChunk) *
    sizeof(float);

}  // namespace bascule
