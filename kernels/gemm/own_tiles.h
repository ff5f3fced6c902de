// SPDX-License-Identifier: Apache-2.0
// How our own products are cut into tasks: C (rows, cols) in a grid of equal tiles, of which the last row and column
// may be smaller. Functions of the extents and the number of threads; the bits do not depend on them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/rounding.h"
#include "kernels/gemm_tile.h"
#include "kernels/table.h"

namespace bascule {

// Tiles down a C of the most rows, the width of a tile, and the threads that share the tiles.
struct OwnTiling {
  std::int64_t rows, width;
  std::int64_t threads;
  std::int64_t row_unit;  // of which a tile's height is a multiple
};
constexpr std::int64_t kOwnRowUnit = 14, kOwnColumnUnit = 32;  // a block (simd/gemm_block.h)

// What packing an element of B or A and starting a task cost, in multiply-adds per depth, and the rows of a block.
struct OwnCosts {
  std::int64_t transposed_b, b, a_across, a, task, row_unit;
};
// Packing costs 12 products where B is transposed, 9 where it or A is read across its rows, 3 for a copy of rows
// (Sapphire Rapids, AVX-512). That of starting a task is a guess.
constexpr OwnCosts kCosts = {12, 9, 9, 3, 64, kOwnRowUnit};
// By tiles (simd/multiply_amx.h) packing takes no longer and multiplying a sixth of the time.
constexpr OwnCosts kCostsOfTiles = {70, 100, 60, 40, 1000, 32};

// Of products with these kernels.
inline const OwnCosts& costs_of(const KernelTable& kernels, bool in_bf16) {
  const bool by_tiles = kernels.isa == Isa::kAmx && kernels.gemm_tile_bf16 == kernels.gemm_tile_bf16_tiles;
  return in_bf16 && by_tiles ? kCostsOfTiles : kCosts;
}

struct OwnGrid {
  std::int64_t all_rows, all_cols;
  std::int64_t height, width;  // of all tiles but the last ones
  std::int64_t rows, columns;  // tiles
  constexpr std::int64_t tasks() const { return rows * columns; }
};

// The grid of at most `down` tiles down a C, of this width.
constexpr OwnGrid own_grid_of(std::int64_t rows, std::int64_t cols, std::int64_t down, std::int64_t width,
                              std::int64_t row_unit = kOwnRowUnit) {
  const std::int64_t height = std::max(ceil_divide(ceil_divide(rows, down), row_unit), std::int64_t{1}) * row_unit;
  return {rows, cols, height, width, ceil_divide(rows, height), ceil_divide(cols, width)};
}

// Estimated time of a product: that of the thread with the most tiles, in multiply-adds per depth. A task packs its
// part of A and of B. B is not packed for few rows (kMostStreamedRows of simd/streamed_product.h).
constexpr std::int64_t own_time(GemmKind kind, const OwnGrid& grid, std::int64_t threads, const OwnCosts& costs) {
  constexpr std::int64_t kFewRows = 16;
  const bool packs_b = kind != GemmKind::kForward || grid.all_rows > kFewRows;
  const std::int64_t cost_of_b = packs_b ? (kind == GemmKind::kForward ? costs.transposed_b : costs.b) : 0;
  const std::int64_t cost_of_a = kind == GemmKind::kWeightGradient ? costs.a_across : costs.a;
  const std::int64_t height = std::min(grid.height, grid.all_rows), width = std::min(grid.width, grid.all_cols);
  const std::int64_t tile = height * width + cost_of_b * width + cost_of_a * height + costs.task;
  return ceil_divide(grid.tasks(), threads) * tile;
}

// The tiling of a C of at most so many rows: of all whose time is within 1/64 of the least, the one with the most
// tasks, since other programs may hold up a thread.
constexpr OwnTiling own_tiling(GemmKind kind, std::int64_t max_rows, std::int64_t cols, std::int64_t threads,
                               const OwnCosts& costs = kCosts) {
  const std::int64_t least_columns = ceil_divide(cols, kGemmTileCols);
  const std::int64_t most_tasks = std::max({std::int64_t{64}, 4 * threads, least_columns});
  OwnTiling best{};
  std::int64_t least_time = 0, best_time = 0, best_tasks = 0;
  // The first walk finds the least time, the second the tiling.
  for (const bool is_second : {false, true}) {
    for (std::int64_t down = 1; down <= std::min(most_tasks, ceil_divide(max_rows, costs.row_unit)); ++down) {
      for (std::int64_t across = least_columns; down * across <= most_tasks; ++across) {
        const std::int64_t width = ceil_divide(ceil_divide(cols, across), kOwnColumnUnit) * kOwnColumnUnit;
        const OwnGrid grid = own_grid_of(max_rows, cols, down, width, costs.row_unit);
        const std::int64_t time = own_time(kind, grid, threads, costs);
        if (!is_second) {
          least_time = least_time == 0 ? time : std::min(least_time, time);
        } else if (64 * time <= 65 * least_time &&
                   (grid.tasks() > best_tasks || (grid.tasks() == best_tasks && time < best_time))) {
          best = {grid.rows, width, threads, costs.row_unit};
          best_time = time;
          best_tasks = grid.tasks();
        }
        if (width == kOwnColumnUnit) break;  // further columns have the same tiles
      }
    }
  }
  return best;
}

// Fewer rows have fewer tiles, as low ones would cost more to pack, but still a task for each thread as long as a tile
// has row_unit rows.
constexpr OwnGrid own_grid(const OwnTiling& tiling, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kLowTile = 168;
  const std::int64_t across = ceil_divide(cols, tiling.width);
  std::int64_t down = tiling.rows;
  while (down > 1 && rows < kLowTile * down && (down + 1) / 2 * across >= tiling.threads) down = (down + 1) / 2;
  return own_grid_of(rows, cols, down, tiling.width, tiling.row_unit);
}

}  // namespace bascule
