// SPDX-License-Identifier: Apache-2.0
// Convolution as a matrix product whose rows are windows: they are gathered where a product packs its rows, a few at a
// time into the first-level cache, so that a window is stored nowhere else. Steps: as in multiply_tile.h.
#pragma once

#include <cstdint>

#include "kernels/convolution.h"
#include "kernels/simd/gathered.h"
#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {
namespace {

// The window of an output pixel, and then those of the next ones.
class Window {
 public:
  Window(const Pictures& pictures, std::int64_t row)
      : p_(pictures), out_height_(out_height(pictures)), out_width_(out_width(pictures)) {
    x_ = row % out_width_;
    y_ = row / out_width_ % out_height_;
    sample_ = row / out_width_ / out_height_;
  }
  void advance() {
    if (++x_ < out_width_) return;
    x_ = 0;
    if (++y_ < out_height_) return;
    y_ = 0;
    ++sample_;
  }
  // Whether the three taps of each row of the window lie side by side in memory, or all outside the picture.
  bool has_neighbours() const { return p_.enlarged_width == p_.width && x_ > 0 && p_.stride * x_ + 1 < p_.width; }
  // The number of the stored pixel at a tap; -1 outside the picture.
  std::int64_t pixel(std::int64_t tap) const {
    std::int64_t y = p_.stride * y_ + tap / 3 - 1, x = p_.stride * x_ + tap % 3 - 1;
    if (y < 0 || y >= p_.enlarged_height || x < 0 || x >= p_.enlarged_width) return -1;
    if (p_.enlarged_height != p_.height) y = y * p_.height / p_.enlarged_height;
    if (p_.enlarged_width != p_.width) x = x * p_.width / p_.enlarged_width;
    return (sample_ * p_.height + y) * p_.width + x;
  }

 private:
  const Pictures& p_;
  std::int64_t out_height_, out_width_;
  std::int64_t sample_, y_, x_;
};

// run(from, done, count) for each run of columns of a window, from first_col on, that lie side by side in x; null where
// they are zero. These are the columns of one tap, or of the three of a row that are pixels beside each other.
template <typename Run>
[[gnu::always_inline]] inline void for_runs(ConstElements x, const Pictures& p, const Window& window,
                                            std::int64_t first_col, std::int64_t cols, const Run& run) {
  const std::int64_t taps = window.has_neighbours() ? 3 : 1, width = taps * p.channels;
  std::int64_t tap = first_col / width * taps, col = first_col % width;
  for (std::int64_t done = 0; done < cols; tap += taps) {
    const std::int64_t count = least(width - col, cols - done), pixel = window.pixel(tap);
    run(pixel < 0 ? ConstElements() : x + (pixel * p.channels + col), done, count);
    done += count;
    col = 0;
  }
}

template <typename Steps>
void pack_window(float* packed, ConstElements x, const Pictures& p, const Window& window, std::int64_t first_col,
                 std::int64_t cols) {
  Gathered<Steps> gathered(packed);
  for_runs(x, p, window, first_col, cols,
           [&](ConstElements from, std::int64_t done, std::int64_t count) { gathered.put(from, done, count); });
  gathered.pack(cols);
}

// Products of one chunk of columns, which packed_b holds of all weights.
template <typename Steps>
void multiply_windows(const Convolution& a, std::int64_t first_col, std::int64_t cols, const float* packed_b,
                      float* packed_a) {
  Window window(a.pictures, a.first_row);
  for (std::int64_t row = 0; row < a.rows; row += kBlockRows) {
    const std::int64_t rows = least(kBlockRows, a.rows - row);
    for (std::int64_t i = 0; i < rows; ++i) {
      pack_window<Steps>(packed_a + i * kRowPitch<Steps>, a.x, a.pictures, window, first_col, cols);
      window.advance();
    }
    GemmBlock block{};
    block.a = packed_a;
    block.b = packed_b;
    block.b_step = kBlockCols;
    block.ldc = a.y_stride;
    block.steps = steps_of<Steps>(cols);
    block.start_row = first_col > 0 ? a.y_stride : 0;
    for (std::int64_t col = 0; col < a.cols; col += kBlockCols) {
      float* const y = a.y + row * a.y_stride + col;
      block.c = y;
      block.start = first_col > 0 ? y : a.bias != nullptr ? a.bias + col : nullptr;
      block.cols = a.cols - col;
      multiply_block_of<Steps, LayoutA::kRows>(block, rows);
      block.b += kChunkSteps<Steps> * kBlockCols;
    }
  }
}

template <typename Steps>
void convolve(const Convolution& a) {
  float* const packed_b = static_cast<float*>(a.scratch);
  float* const packed_a = packed_b + kChunkSteps<Steps> * kGemmTileCols;
  GemmTile weight{};
  weight.kind = GemmKind::kForward;
  weight.b = a.weight;
  weight.ldb = window_size(a.pictures);
  weight.cols = a.cols;
  for (std::int64_t first = 0; first < window_size(a.pictures); first += Steps::kChunk) {
    const std::int64_t cols = least(Steps::kChunk, window_size(a.pictures) - first);
    pack_b<Steps>(packed_b, weight, first, cols, 0, packed_a);
    multiply_windows<Steps>(a, first, cols, packed_b, packed_a);
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
