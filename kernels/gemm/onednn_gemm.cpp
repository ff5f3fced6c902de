// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/onednn_primitives.h"
#include "kernels/gemm/onednn_tiles.h"

namespace bascule {
namespace {

const float* a_of(const GemmRun& run) { return run.a.float32(); }
const float* b_of(const GemmRun& run) { return run.b.float32(); }

using ByUnits = std::array<const Product*, kGemmMaxUnits + 1>;

// Forward and input gradient: a task is a tile of rows over the full width of C.
class RowGemm final : public Gemm {
 public:
  RowGemm(const GemmSpec& spec, OnednnProducts& cache) : spec_(spec), cache_(cache) {
    const std::int64_t max_units = gemm_units(spec.max_rows);
    for (std::int64_t units = 1; units <= max_units; ++units) {
      // Heights of a row count are two at most: those of the first and of the last tile.
      add(row_tile(units, 0, cache.tiling()).units, cache);
      add(row_tile(units, row_tile_count(units, cache.tiling()) - 1, cache.tiling()).units, cache);
    }
  }

  std::int64_t tasks(std::int64_t rows) const noexcept override {
    return row_tile_count(gemm_units(rows), cache_.tiling());
  }

  void run(std::int64_t task, int thread, const GemmRun& run) const noexcept override {
    const RowTile tile = row_tile(gemm_units(run.rows), task, cache_.tiling());
    const std::int64_t row = tile.first * kGemmUnit;
    const ByUnits& products = run.accumulate ? accumulate_ : overwrite_;
    products[static_cast<std::size_t>(tile.units)]->run(thread, cache_.stream(thread),
                                                        run.c.float32() + row * spec_.ldc, a_of(run) + row * spec_.lda,
                                                        b_of(run), run.bias);
  }

 private:
  void add(std::int64_t units, OnednnProducts& cache) {
    const bool transposed = spec_.kind == GemmKind::kForward;  // B is stored (n, k)
    ProductKey key{units * kGemmUnit,          spec_.n,   spec_.k,    spec_.lda, 1, transposed ? 1 : spec_.ldb,
                   transposed ? spec_.ldb : 1, spec_.ldc, spec_.bias, false};
    const auto index = static_cast<std::size_t>(units);
    if (spec_.may_overwrite && overwrite_[index] == nullptr) overwrite_[index] = cache.product(key);
    key.accumulate = true;
    if (spec_.may_accumulate && accumulate_[index] == nullptr) accumulate_[index] = cache.product(key);
  }

  GemmSpec spec_;
  const OnednnProducts& cache_;
  ByUnits overwrite_{};
  ByUnits accumulate_{};
};

// Weight gradient: a task is a tile of C, over all chunks of rows in order.
class WeightGemm final : public Gemm {
 public:
  WeightGemm(const GemmSpec& spec, OnednnProducts& cache)
      : spec_(spec), cache_(cache), grid_(weight_grid(spec.n, spec.k, cache.tiling())) {
    const std::int64_t max_units = gemm_units(spec.max_rows);
    for (std::int64_t units = 1; units <= kGemmChunkUnits && units <= max_units; units *= 2) {
      for (int last_row = 0; last_row < 2; ++last_row) {
        for (int last_column = 0; last_column < 2; ++last_column) add(units, last_row, last_column, max_units, cache);
      }
    }
  }

  std::int64_t tasks(std::int64_t) const noexcept override { return grid_.rows * grid_.columns; }

  void run(std::int64_t task, int thread, const GemmRun& run) const noexcept override {
    const std::int64_t tile_row = task / grid_.columns;
    const std::int64_t tile_column = task % grid_.columns;
    const TileProducts& tile = products_[tile_row == grid_.rows - 1][tile_column == grid_.columns - 1];
    const std::int64_t i = tile_row * grid_.height;
    const std::int64_t j = tile_column * grid_.width;
    const std::int64_t units = gemm_units(run.rows);
    bool accumulate = run.accumulate;
    if (units == 0 && !accumulate)
      clear_tile(run.c.float32() + i * spec_.ldc + j, tile_row, tile_column);  // a sum of nothing
    for (std::int64_t first = 0; first < units;) {
      const std::int64_t chunk = chunk_units(units - first);
      const std::int64_t row = first * kGemmUnit;
      const ByUnits& products = accumulate ? tile.accumulate : tile.overwrite;
      products[static_cast<std::size_t>(chunk)]->run(thread, cache_.stream(thread), run.c.float32() + i * spec_.ldc + j,
                                                     a_of(run) + row * spec_.lda + i, b_of(run) + row * spec_.ldb + j,
                                                     nullptr);
      accumulate = true;
      first += chunk;
    }
  }

 private:
  void clear_tile(float* c, std::int64_t tile_row, std::int64_t tile_column) const noexcept {
    const std::int64_t height = std::min(grid_.height, spec_.n - tile_row * grid_.height);
    const std::int64_t width = std::min(grid_.width, spec_.k - tile_column * grid_.width);
    for (std::int64_t row = 0; row < height; ++row) std::fill_n(c + row * spec_.ldc, width, 0.0f);
  }

  struct TileProducts {
    ByUnits overwrite{};
    ByUnits accumulate{};
  };

  void add(std::int64_t units, int last_row, int last_column, std::int64_t max_units, OnednnProducts& cache) {
    const std::int64_t height = last_row != 0 ? spec_.n - (grid_.rows - 1) * grid_.height : grid_.height;
    const std::int64_t width = last_column != 0 ? spec_.k - (grid_.columns - 1) * grid_.width : grid_.width;
    if (height > spec_.n || width > spec_.k) return;  // no tile but the last one
    TileProducts& tile = products_[last_row][last_column];
    ProductKey key{height, width, units * kGemmUnit, 1, spec_.lda, spec_.ldb, 1, spec_.ldc, false, false};
    const auto index = static_cast<std::size_t>(units);
    if (spec_.may_overwrite) tile.overwrite[index] = cache.product(key);
    key.accumulate = true;
    const bool follows_another = max_units > units;
    if (spec_.may_accumulate || follows_another) tile.accumulate[index] = cache.product(key);
  }

  GemmSpec spec_;
  const OnednnProducts& cache_;
  WeightGrid grid_;
  TileProducts products_[2][2];  // [in the last row of tiles][in the last column of tiles]
};

}  // namespace

std::unique_ptr<Gemm> OnednnProducts::make(const GemmSpec& spec) {
  require_valid(spec);
  if (spec.type != GemmType::kFloat32) throw std::runtime_error("gemm: oneDNN's products are float32 here");
  if (spec.kind == GemmKind::kWeightGradient) return std::make_unique<WeightGemm>(spec, *this);
  return std::make_unique<RowGemm>(spec, *this);
}

}  // namespace bascule
