// SPDX-License-Identifier: Apache-2.0
// How a product is cut into tasks: functions of the extents and the row count alone. Heights count units of 16 rows.
//   * Rows of forward and input gradient: tiles of nearly equal height (they differ by at most one unit), at most 16
//   units, their
//     number a multiple of four where that leaves three units each, of two below: two or four threads then finish
//     together.
//   * C of the weight gradient: a fixed grid of equal tiles; the last row and column of the grid may be smaller.
//   * The contracted rows of the weight gradient: chunks of 16 units, then 8, 4, 2, 1 as the rest has them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace bascule {

constexpr std::int64_t kGemmUnit = 16;      // rows
constexpr std::int64_t kGemmMaxUnits = 16;  // of one tile or chunk

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t gemm_units(std::int64_t rows) { return ceil_divide(rows, kGemmUnit); }

struct RowTile {
  std::int64_t first, units;  // in units
};

constexpr std::int64_t row_tile_count(std::int64_t units) {
  const std::int64_t least = ceil_divide(units, kGemmMaxUnits);
  if (units >= 12) return ceil_divide(least, 4) * 4;
  return units >= 2 ? 2 : least;
}

// The larger tiles come first.
constexpr RowTile row_tile(std::int64_t units, std::int64_t index) {
  const std::int64_t count = row_tile_count(units);
  const std::int64_t height = units / count;
  const std::int64_t larger = units % count;
  return {index * height + std::min(index, larger), height + (index < larger ? 1 : 0)};
}

constexpr std::int64_t chunk_units(std::int64_t units_left) {
  std::int64_t units = kGemmMaxUnits;
  while (units > units_left) units /= 2;
  return units;
}

// The grid over C (n, k) of a weight gradient: a tile of C stays in the second-level cache while the chunks pass.
struct WeightGrid {
  std::int64_t height, width;  // of all tiles but the last ones
  std::int64_t rows, columns;  // tiles
};

constexpr WeightGrid weight_grid(std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kMaxHeight = 384;
  constexpr std::int64_t kMaxWidth = 768;
  const std::int64_t width = ceil_divide(ceil_divide(k, ceil_divide(k, kMaxWidth)), 16) * 16;
  const std::int64_t columns = ceil_divide(k, width);
  std::int64_t wanted = ceil_divide(n, kMaxHeight);
  while (wanted * columns % 4 != 0 && wanted * 16 < n) ++wanted;
  const std::int64_t height = ceil_divide(ceil_divide(n, wanted), 16) * 16;
  return {height, width, ceil_divide(n, height), columns};
}

}  // namespace bascule
