// SPDX-License-Identifier: Apache-2.0
// The kernels of Bf16Law::kTiles by tiles: what is packed of their operands.
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_amx.h"
#include "kernels/simd/multiply_doubled.h"
#include "kernels/simd/multiply_windows.h"

namespace bascule {
namespace avx2 {
void gemm_tile_bf16_tiles(const GemmTile& tile);
void convolution_bf16_tiles(const Convolution& a);
void doubled_convolution_bf16_tiles(const DoubledConvolution& a);
}  // namespace avx2

namespace BASCULE_ISA {
namespace {

constexpr std::int64_t kConvolutionRoom = static_cast<std::int64_t>(kConvolutionBf16ScratchBytes);

// Whether the room holds a strip of B. It does not where C is bf16 and the depth some 14,000.
bool has_room(const AmxProduct& p) { return p.depth > 0 && cut_of(p).strip > 0; }

template <typename Number>
const char* address_of(const Number* x) {
  return static_cast<const char*>(static_cast<const void*>(x));
}

template <typename A, typename B>
void multiply_packed(const GemmTile& t, const AmxProduct& p, const A* a, const B* b) {
  const auto pack_a = [&](std::uint16_t* tiles, std::int64_t row, std::int64_t rows, std::int64_t first,
                          std::int64_t depths) {
    if (t.kind == GemmKind::kWeightGradient)
      return pack_pairs_tiles<true>(tiles, a + first * t.lda + row, t.lda, depths, rows);
    pack_tile_rows(tiles, a + row * t.lda + first, t.lda, rows, depths);
  };
  const auto pack_b = [&](std::uint16_t* tiles, std::int64_t col, std::int64_t cols, std::int64_t first,
                          std::int64_t depths) {
    if (t.kind == GemmKind::kForward) return pack_tile_columns(tiles, b + col * t.ldb + first, t.ldb, cols, depths);
    pack_pairs_tiles<false>(tiles, b + first * t.ldb + col, t.ldb, depths, cols);
  };
  const auto ahead = [&](std::int64_t row, std::int64_t part, std::int64_t parts, std::int64_t first,
                         std::int64_t depths) {
    constexpr std::int64_t kBytes = sizeof(A);
    const std::int64_t pitch = t.lda * kBytes, tiles = (depths + kTileDepths - 1) / kTileDepths;
    if (t.kind == GemmKind::kWeightGradient) {  // 32 columns of a depth are a line of bf16
      const std::int64_t count = (depths + parts * tiles - 1) / (parts * tiles);
      const std::int64_t from = least(part * count * tiles, depths - 1), left = (depths - from) / tiles;
      return AmxAhead{address_of(a + (first + from) * t.lda + row), pitch * tiles, pitch, least(count, left),
                      kBytes > 2};
    }
    const std::int64_t count = (kAmxBlock + parts - 1) / parts, from = least(part * count, kAmxBlock);
    return AmxAhead{address_of(a + (row + from) * t.lda + first), pitch, kTileDepths * kBytes,
                    least(count, kAmxBlock - from), kBytes > 2};
  };
  multiply_by_tiles(p, pack_a, pack_b, ahead);
}

// Pixels are read for nine windows, and lie in the caches.
AmxAhead nothing_ahead(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t) { return {}; }

// Row r of 16 from a row of numbers that are bf16 already.
class GatheredRows {
 public:
  std::uint16_t* row() { return row_; }
  void pack(std::uint16_t* tiles, std::int64_t r, std::int64_t depths) const {
    pack_tile_row(tiles + r * kTileDepths, static_cast<const std::uint16_t*>(row_), depths);
  }

 private:
  std::uint16_t row_[kLongestAmxChunk + kLanes];
};

}  // namespace

void pack_columns_bf16_tiles(const PackColumns& a) {
  for (std::int64_t col = 0; col < kPackedCols; col += kTileRows)
    pack_tile_columns((a.packed + col * a.depth).bf16(), (a.b + col * a.depth).bf16(), a.depth, kTileRows, a.depth);
}

void gemm_tile_bf16_tiles(const GemmTile& t) {
  const AmxProduct p{t.c,
                     t.ldc,
                     t.rows,
                     0,
                     t.rows,
                     t.cols,
                     t.depth,
                     t.bias,
                     t.accumulate,
                     t.scratch,
                     static_cast<std::int64_t>(kGemmTileBf16ScratchBytes),
                     t.b_is_packed ? t.b.bf16() : nullptr};
  if (!has_room(p)) return avx2::gemm_tile_bf16_tiles(t);
  const auto with_a = [&](const auto* a) {
    t.b.is_bf16() ? multiply_packed(t, p, a, t.b.bf16()) : multiply_packed(t, p, a, t.b.float32());
  };
  t.a.is_bf16() ? with_a(t.a.bf16()) : with_a(t.a.float32());
}

void convolution_bf16_tiles(const Convolution& a) {
  const std::int64_t depth = window_size(a.pictures);
  const AmxProduct p{a.y, a.y_stride, a.rows, 0, a.rows, a.cols, depth, a.bias, false, a.scratch, kConvolutionRoom};
  if (!has_room(p)) return avx2::convolution_bf16_tiles(a);
  GatheredRows gathered;
  const auto pack_a = [&](std::uint16_t* tiles, std::int64_t row, std::int64_t rows, std::int64_t first,
                          std::int64_t depths) {
    Window window(a.pictures, a.first_row + row);
    for (std::int64_t r = 0; r < rows; ++r, window.advance()) {
      for_runs(a.x, a.pictures, window, first, depths, [&](ConstElements from, std::int64_t done, std::int64_t count) {
        put_run(gathered.row(), from, done, count);
      });
      gathered.pack(tiles, r, depths);
    }
    for (std::int64_t r = rows; r < kTileRows; ++r) clear_tile_row(tiles + r * kTileDepths, depths);
  };
  const auto pack_b = [&](std::uint16_t* tiles, std::int64_t col, std::int64_t cols, std::int64_t first,
                          std::int64_t depths) {
    const ConstElements weight = a.weight + (col * depth + first);
    weight.is_bf16() ? pack_tile_columns(tiles, weight.bf16(), depth, cols, depths)
                     : pack_tile_columns(tiles, weight.float32(), depth, cols, depths);
  };
  multiply_by_tiles(p, pack_a, pack_b, nothing_ahead);
}

// Sums of weights are rounded in the mode that takes subnormal numbers as zeros, which tiles do by themselves.
void doubled_convolution_bf16_tiles(const DoubledConvolution& a) {
  const SubnormalsAreZeros mode;
  const std::int64_t depth = kDoubledTaps * a.channels;
  for (const Kind kind : kKinds) {
    float* const y = a.y + ((2 * a.first_line + kind.u) * 2 * a.width + kind.v) * a.y_stride;
    const AmxProduct p{y,      2 * a.y_stride, a.width,   4 * a.width * a.y_stride, a.lines * a.width, a.cols, depth,
                       a.bias, false,          a.scratch, kConvolutionRoom};
    GatheredRows gathered;
    const auto pack_a = [&](std::uint16_t* tiles, std::int64_t row, std::int64_t rows, std::int64_t first,
                            std::int64_t depths) {
      for (std::int64_t r = 0; r < rows; ++r) {
        for_window_runs(a, kind, a.first_line + row / a.width, row % a.width + r, first, depths,
                        [&](ConstElements from, std::int64_t done, std::int64_t count) {
                          put_run(gathered.row(), from, done, count);
                        });
        gathered.pack(tiles, r, depths);
      }
      for (std::int64_t r = rows; r < kTileRows; ++r) clear_tile_row(tiles + r * kTileDepths, depths);
    };
    const auto pack_b = [&](std::uint16_t* tiles, std::int64_t col, std::int64_t cols, std::int64_t first,
                            std::int64_t depths) {
      alignas(64) std::uint16_t tile[kTileNumbers];
      for (std::int64_t d = 0; d < depths; d += kTileDepths, tiles += kTileNumbers) {
        const std::int64_t count = least(kTileDepths, depths - d);
        for (std::int64_t i = 0; i < kTileRows; ++i) {
          if (i >= cols) {
            clear_tile_row(tile + i * kTileDepths, count);
            continue;
          }
          add_weights<TileSteps>(gathered.row(), a.weight + (col + i) * kTaps * a.channels, a, kind, first + d, count);
          gathered.pack(tile, i, count);
        }
        transpose_tile(tiles, tile);
      }
    };
    multiply_by_tiles(p, pack_a, pack_b, nothing_ahead);
  }
}

}  // namespace BASCULE_ISA
}  // namespace bascule
