// SPDX-License-Identifier: Apache-2.0
// Matrix products whose columns are query rows of attention: C (rows, columns) = or += A (rows, steps) B (steps,
// columns). Every element of C is one chain of fma over the steps in order, so that neither the ISA nor the blocking
// shows in its bits, and the chains are those of small_product.h. A lies in panels of kLanes rows, whose numbers for
// one step lie side by side; rows of B and of C lie kAttentionQueryBlock numbers apart.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t kColumnPitch = kAttentionQueryBlock;

// As many sums as the registers hold beside a row of B and an element of A: 24 of 32, or 12 of 16.
constexpr int kBlockColumnVectors = 3;
#if defined(__AVX512F__) && !defined(BASCULE_SCALAR_LANES)
constexpr int kBlockPanelRows = 8;
#else
constexpr int kBlockPanelRows = 4;
#endif

template <int kVectors>
[[gnu::noinline]] void add_column_block(float* c, const float* a, const float* b, std::int64_t steps, bool accumulate) {
  ColumnVector sum[kBlockPanelRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kBlockPanelRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = accumulate ? load_columns(c + i * kColumnPitch + v * kColumnLanes) : set_columns(0.0f);
  }
  for (std::int64_t step = 0; step < steps; ++step, a += kLanes, b += kColumnPitch) {
    ColumnVector row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) row[v] = load_columns(b + v * kColumnLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kBlockPanelRows; ++i) {
      const ColumnVector element = set_columns(a[i]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] = fma(element, row[v], sum[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kBlockPanelRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(c + i * kColumnPitch + v * kColumnLanes, sum[i][v]);
  }
}

// Rows 0 .. rows - 1 of a panel, and those behind them up to a whole block; columns `first` to before `end`, whole
// vectors of kLanes.
inline void add_panel_product(float* c, const float* a, const float* b, std::int64_t rows, std::int64_t steps,
                              std::int64_t first, std::int64_t end, bool accumulate) {
  while (first < end) {
    const std::int64_t left = (end - first) / kColumnLanes;
    // Four vectors are two blocks of two.
    const std::int64_t vectors = left == 4 ? 2 : left < kBlockColumnVectors ? left : kBlockColumnVectors;
    auto* const block = vectors == 3 ? add_column_block<3> : vectors == 2 ? add_column_block<2> : add_column_block<1>;
    for (std::int64_t row = 0; row < rows; row += kBlockPanelRows)
      block(c + row * kColumnPitch + first, a + row, b + first, steps, accumulate);
    first += vectors * kColumnLanes;
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
