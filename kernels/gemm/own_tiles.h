// SPDX-License-Identifier: Apache-2.0
// How our own products are cut into tasks: C (rows, cols) in a grid of equal tiles, of which the last row and column
// may be smaller. Functions of the extents alone; the bits do not depend on them.
//
// A task packs its part of B, and A once for each column of tiles, so tiles are large: splitting goes on as long as
// packing costs little beside the products. Packing an element costs as much as some 12 products of it where B is
// transposed, 9 where it or A is read across its rows, 3 for a copy of rows (Sapphire Rapids, AVX-512).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/rounding.h"
#include "kernels/gemm_tile.h"

namespace bascule {

// Tiles down a C of the most rows, and the width of a tile.
struct OwnTiling {
  std::int64_t rows, width;
};
constexpr std::int64_t kOwnRowUnit = 14, kOwnColumnUnit = 32;  // a block (simd/gemm_block.h)

struct OwnGrid {
  std::int64_t all_rows, all_cols;
  std::int64_t height, width;  // of all tiles but the last ones
  std::int64_t rows, columns;  // tiles
  constexpr std::int64_t tasks() const { return rows * columns; }
};

// The tiling of a C of at most so many rows: the most tasks, up to 64, whose packing costs at most 1/32 of the
// products; 1/12 for four tasks, 1/4 for two. In multiples of four, so that two or four threads finish together.
constexpr OwnTiling own_tiling(GemmKind kind, std::int64_t max_rows, std::int64_t cols) {
  constexpr std::int64_t kMostTasks = 64;
  const std::int64_t cost_of_b = kind == GemmKind::kForward ? 12 : 9;
  const std::int64_t cost_of_a = kind == GemmKind::kWeightGradient ? 9 : 3;
  const std::int64_t least_columns = ceil_divide(cols, kGemmTileCols);
  std::int64_t best_rows = 1, best_columns = least_columns, best_tasks = 0, best_cost = 0;
  for (std::int64_t rows = 1; rows <= kMostTasks; ++rows) {
    for (std::int64_t columns = least_columns; columns <= std::max(kMostTasks, least_columns); ++columns) {
      const std::int64_t tasks = std::min(rows * columns, kMostTasks);
      const std::int64_t cost = cost_of_b * rows * cols + cost_of_a * columns * max_rows;
      const std::int64_t share = tasks <= 2 ? 4 : tasks <= 4 ? 12 : 32;
      if (rows * columns > std::max(kMostTasks, least_columns) || cost * share > max_rows * cols) break;
      if (tasks % 4 != 0 && tasks != 2) continue;
      if (tasks < best_tasks || (tasks == best_tasks && cost >= best_cost)) continue;
      best_rows = rows;
      best_columns = columns;
      best_tasks = tasks;
      best_cost = cost;
    }
  }
  return {best_rows, ceil_divide(ceil_divide(cols, best_columns), kOwnColumnUnit) * kOwnColumnUnit};
}

// Fewer rows have fewer tiles, as low ones would cost more to pack, but two tasks at least.
constexpr OwnGrid own_grid(const OwnTiling& tiling, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kLowTile = 168;
  const std::int64_t across = ceil_divide(cols, tiling.width);
  std::int64_t down = tiling.rows;
  while (down > 1 && rows < kLowTile * down && down * across > 2) down = (down + 1) / 2;
  const std::int64_t height =
      std::max(ceil_divide(ceil_divide(rows, down), kOwnRowUnit), std::int64_t{1}) * kOwnRowUnit;
  return {rows, cols, height, tiling.width, ceil_divide(rows, height), across};
}

}  // namespace bascule
