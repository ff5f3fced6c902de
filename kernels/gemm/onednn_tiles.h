// SPDX-License-Identifier: Apache-2.0
// How a product is cut into tasks: functions of the extents, the row count and the library's ISA alone. Heights count
// units of 16 rows.
//   * Rows of forward and input gradient: tiles of nearly equal height (they differ by at most one unit). Their number
//     is a multiple of four where that leaves three units each, of two below: two or four threads then finish
//     together.
//   * C of the weight gradient: a fixed grid of equal tiles; the last row and column of the grid may be smaller.
//   * The contracted rows of the weight gradient: chunks of 16 units, then 8, 4, 2, 1 as the rest has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gemm/rounding.h"

namespace bascule {

constexpr std::int64_t kGemmUnit = 16;        // rows
constexpr std::int64_t kGemmChunkUnits = 16;  // the largest chunk

// Upper bounds of a tile. AVX-512: a tile of C stays in the second-level cache. AVX2: the library packs its operands
// only where 1 / rows + 1 / columns < 0.0038; without packing, rows of 3072 or 4096 numbers halve its speed.
struct GemmTiling {
  std::int64_t row_units;
  std::int64_t weight_height;
};
constexpr GemmTiling kTilingAvx512 = {16, 384};
constexpr GemmTiling kTilingAvx2 = {32, 768};
constexpr std::size_t kGemmMaxUnits = 32;

constexpr std::int64_t gemm_units(std::int64_t rows) { return ceil_divide(rows, kGemmUnit); }

struct RowTile {
  std::int64_t first, units;  // in units
};

constexpr std::int64_t row_tile_count(std::int64_t units, const GemmTiling& tiling) {
  const std::int64_t least = ceil_divide(units, tiling.row_units);
  if (units >= 12) return ceil_divide(least, 4) * 4;
  return units >= 2 ? 2 : least;
}

// The larger tiles come first.
constexpr RowTile row_tile(std::int64_t units, std::int64_t index, const GemmTiling& tiling) {
  const std::int64_t count = row_tile_count(units, tiling);
  const std::int64_t height = units / count;
  const std::int64_t larger = units % count;
  return {index * height + std::min(index, larger), height + (index < larger ? 1 : 0)};
}

constexpr std::int64_t chunk_units(std::int64_t units_left) {
  std::int64_t units = kGemmChunkUnits;
  while (units > units_left) units /= 2;
  return units;
}

// The grid over C (n, k) of a weight gradient.
struct WeightGrid {
  std::int64_t height, width;  // of all tiles but the last ones
  std::int64_t rows, columns;  // tiles
};

constexpr WeightGrid weight_grid(std::int64_t n, std::int64_t k, const GemmTiling& tiling) {
  constexpr std::int64_t kMaxWidth = 768;
  const std::int64_t width = ceil_divide(ceil_divide(k, ceil_divide(k, kMaxWidth)), 16) * 16;
  const std::int64_t columns = ceil_divide(k, width);
  std::int64_t wanted = ceil_divide(n, tiling.weight_height);
  while (wanted * columns % 4 != 0 && wanted * 16 < n) ++wanted;
  const std::int64_t height = ceil_divide(ceil_divide(n, wanted), 16) * 16;
  return {height, width, ceil_divide(n, height), columns};
}

}  // namespace bascule
