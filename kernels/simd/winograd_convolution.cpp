// SPDX-License-Identifier: Apache-2.0
// For a chunk of channels the weights of all components are transformed and packed, into the second-level cache; then a
// few tiles at a time, which every component multiplies. The products of a number of tiles lie there too, until those
// of all chunks are added.
#include "kernels/convolution.h"

#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {
namespace {

using Steps = Float32Steps;
constexpr std::int64_t kSide = 4;  // components a side
constexpr std::int64_t kPackedRows = 16;

// The parts of the scratch.
constexpr std::int64_t kWeightsOfComponent = kGemmChunk * kWinogradCols + kWinogradGap;
constexpr std::int64_t kPixelsOfComponent = kPackedRows * kRowPitch<Steps>;
constexpr std::int64_t kProductsOfComponent = kWinogradKept * kWinogradCols;
static_assert(kBlockRows <= kPackedRows && kWinogradCols % kBlockCols == 0);

// A tile, and then the next ones.
class Tile {
 public:
  Tile(const WinogradConvolution& a, std::int64_t tile) : a_(a) {
    const std::int64_t across = tiles_of(a.width), down = tiles_of(a.height);
    left_ = tile % across * kWinogradTile;
    top_ = tile / across % down * kWinogradTile;
    sample_ = tile / across / down;
  }
  void advance() {
    left_ += kWinogradTile;
    if (left_ < a_.width) return;
    left_ = 0;
    top_ += kWinogradTile;
    if (top_ < a_.height) return;
    top_ = 0;
    ++sample_;
  }
  // The number of the pixel so far below and to the right of the tile's first; -1 outside of the picture.
  std::int64_t pixel(std::int64_t down, std::int64_t across) const {
    const std::int64_t y = top_ + down, x = left_ + across;
    if (y < 0 || y >= a_.height || x < 0 || x >= a_.width) return -1;
    return (sample_ * a_.height + y) * a_.width + x;
  }

 private:
  const WinogradConvolution& a_;
  std::int64_t sample_, top_, left_;
};

// B' x.
[[gnu::always_inline]] inline void transform_pixels(f32x16 (&out)[kSide], const f32x16 (&x)[kSide]) {
  out[0] = x[0] - x[2];
  out[1] = x[1] + x[2];
  out[2] = x[2] - x[1];
  out[3] = x[1] - x[3];
}
// G x.
[[gnu::always_inline]] inline void transform_weights(f32x16 (&out)[kSide], const f32x16 (&x)[3]) {
  const f32x16 half = set(0.5f), ends = x[0] + x[2];
  out[0] = x[0];
  out[1] = (ends + x[1]) * half;
  out[2] = (ends - x[1]) * half;
  out[3] = x[2];
}
// A' x.
[[gnu::always_inline]] inline void transform_products(f32x16 (&out)[kWinogradTile], const f32x16 (&x)[kSide]) {
  out[0] = (x[0] + x[1]) + x[2];
  out[1] = (x[1] - x[2]) - x[3];
}

// packed[component, r, c]: so many tiles over some channels. Whole vectors are written.
void pack_pixels(float* packed, const WinogradConvolution& a, Tile tile, std::int64_t tiles, std::int64_t channel,
                 std::int64_t count, const float* zeros) {
  const float* const x = a.x.float32() + channel;
  for (std::int64_t r = 0; r < tiles; ++r, tile.advance()) {
    const float* from[kSide][kSide];
    for (std::int64_t down = 0; down < kSide; ++down) {
      for (std::int64_t across = 0; across < kSide; ++across) {
        const std::int64_t pixel = tile.pixel(down - 1, across - 1);
        from[down][across] = pixel < 0 ? zeros : x + pixel * a.channels;
      }
    }
    float* const out = packed + r * kRowPitch<Steps>;
    for_lanes(
        count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          f32x16 rows[kSide][kSide];  // B' d, transposed
#pragma GCC unroll 4
          for (int across = 0; across < kSide; ++across) {
            f32x16 column[kSide];
#pragma GCC unroll 4
            for (int down = 0; down < kSide; ++down) column[down] = load(from[down][across] + c, lanes);
            transform_pixels(rows[across], column);
          }
#pragma GCC unroll 4
          for (int i = 0; i < kSide; ++i) {
            f32x16 components[kSide];
            transform_pixels(components, {rows[0][i], rows[1][i], rows[2][i], rows[3][i]});
#pragma GCC unroll 4
            for (int j = 0; j < kSide; ++j) store(out + (kSide * i + j) * kPixelsOfComponent + c, components[j]);
          }
        });
  }
}

// packed[component]: the weights of some channels, as multiply_tile.h packs B. `taps` holds 16 columns of all taps.
void pack_weights(float* packed, const WinogradConvolution& a, std::int64_t channel, std::int64_t count, float* taps) {
  constexpr std::int64_t kTap = kGemmChunk * kLanes;
  const std::int64_t window = kTaps * a.channels;
  for (std::int64_t o = 0; o < a.cols; o += kLanes) {
    for (std::int64_t tap = 0; tap < kTaps; ++tap) {
      pack_transposed<false>(taps + tap * kTap, kLanes, a.weight.float32() + o * window + tap * a.channels + channel,
                             window, least(kLanes, a.cols - o), count);
    }
    float* const columns = packed + o / kBlockCols * kGemmChunk * kBlockCols + o % kBlockCols;
    for (std::int64_t c = 0; c < count; ++c) {
      f32x16 rows[3][kSide];  // G g, transposed
#pragma GCC unroll 3
      for (int across = 0; across < 3; ++across) {
        const float* const tap = taps + across * kTap + c * kLanes;
        transform_weights(rows[across], {load(tap), load(tap + 3 * kTap), load(tap + 6 * kTap)});
      }
      float* const out = columns + c * kBlockCols;
#pragma GCC unroll 4
      for (int down = 0; down < kSide; ++down) {
        f32x16 components[kSide];
        transform_weights(components, {rows[0][down], rows[1][down], rows[2][down]});
#pragma GCC unroll 4
        for (int j = 0; j < kSide; ++j) store(out + (kSide * down + j) * kWeightsOfComponent, components[j]);
      }
    }
  }
}

// The output pixels of so many tiles, from their products.
void store_outputs(const WinogradConvolution& a, Tile tile, std::int64_t tiles, const float* products) {
  for (std::int64_t r = 0; r < tiles; ++r, tile.advance(), products += kWinogradCols) {
    float* y[kWinogradTile][kWinogradTile];
    for (std::int64_t u = 0; u < kWinogradTile; ++u) {
      for (std::int64_t v = 0; v < kWinogradTile; ++v) {
        const std::int64_t pixel = tile.pixel(u, v);
        y[u][v] = pixel < 0 ? nullptr : a.y + pixel * a.y_stride;
      }
    }
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          f32x16 rows[kSide][kWinogradTile];
#pragma GCC unroll 4
          for (int i = 0; i < kSide; ++i) {
            f32x16 row[kSide];
#pragma GCC unroll 4
            for (int j = 0; j < kSide; ++j) row[j] = load(products + (kSide * i + j) * kProductsOfComponent + c);
            transform_products(rows[i], row);
          }
#pragma GCC unroll 2
          for (int v = 0; v < kWinogradTile; ++v) {
            f32x16 column[kWinogradTile];
            transform_products(column, {rows[0][v], rows[1][v], rows[2][v], rows[3][v]});
#pragma GCC unroll 2
            for (int u = 0; u < kWinogradTile; ++u) {
              if (y[u][v] == nullptr) continue;
              store(y[u][v] + c, lanes, a.bias != nullptr ? load(a.bias + c, lanes) + column[u] : column[u]);
            }
          }
        });
  }
}

}  // namespace

void winograd_convolution(const WinogradConvolution& a) {
  float* const weights = static_cast<float*>(a.scratch);
  float* const pixels = weights + kWinogradComponents * kWeightsOfComponent;
  float* const products = pixels + kWinogradComponents * kPixelsOfComponent;
  float* const taps = products + kWinogradComponents * kProductsOfComponent;
  float* const zeros = taps + kTaps * kGemmChunk * kLanes;
  for (std::int64_t c = 0; c < kGemmChunk; c += kLanes) store(zeros + c, set(0.0f));
  for (std::int64_t part = 0; part < a.tiles; part += kWinogradKept) {
    const std::int64_t tiles = least(kWinogradKept, a.tiles - part), first_tile = a.first_tile + part;
    for (std::int64_t first = 0; first < a.channels; first += kGemmChunk) {
      const std::int64_t count = least(kGemmChunk, a.channels - first);
      pack_weights(weights, a, first, count, taps);
      for (std::int64_t row = 0; row < tiles; row += kBlockRows) {
        const std::int64_t rows = least(kBlockRows, tiles - row);
        pack_pixels(pixels, a, Tile(a, first_tile + row), rows, first, count, zeros);
        GemmBlock block{};
        block.b_step = kBlockCols;
        block.ldc = kWinogradCols;
        block.steps = count;
        block.start_row = kWinogradCols;
        block.cols = kBlockCols;
        for (std::int64_t component = 0; component < kWinogradComponents; ++component) {
          block.a = pixels + component * kPixelsOfComponent;
          for (std::int64_t col = 0; col < a.cols; col += kBlockCols) {
            float* const c = products + component * kProductsOfComponent + row * kWinogradCols + col;
            block.b = weights + component * kWeightsOfComponent + col * kGemmChunk;
            block.c = c;
            block.start = first > 0 ? c : nullptr;
            multiply_block_of<Steps, LayoutA::kRows>(block, rows);
          }
        }
      }
    }
    store_outputs(a, Tile(a, first_tile), tiles, products);
  }
}

}  // namespace bascule::BASCULE_ISA
