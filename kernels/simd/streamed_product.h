// SPDX-License-Identifier: Apache-2.0
// Products of a few rows: C (rows, cols) = A (rows, depth) B (cols, depth)^T, all float32, whose time is that of
// reading B. Pieces of B are transposed on their way from memory to the registers, and multiplied there with every row
// of A: nothing is packed. The arithmetic is that of gemm_tile.h.
#pragma once

#include <cstdint>

#include "kernels/gemm_tile.h"
#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

// Rows of A that are multiplied together: their sums lie in registers.
#if defined(__AVX512F__) && !defined(BASCULE_SCALAR_LANES)
constexpr int kStreamedRows = 16;
#else
constexpr int kStreamedRows = kRowsInRegisters;
#endif
// The most rows that pay: B is read from the caches again for each kStreamedRows of them.
constexpr std::int64_t kMostStreamedRows = 16;
// Depths of a piece of B, and of a line of memory.
constexpr std::int64_t kPieceDepths = 4, kLineDepths = 16;
// Pieces that are written out one after another: those of a line for few rows, as one piece is too short to pay for its
// loop, and for the numbers of rows that batches often have. Other numbers would gain a few percent, but take long to
// compile.
constexpr std::int64_t kLinePieces = kLineDepths / kPieceDepths;
template <int kRows>
constexpr std::int64_t kPieces = kRows <= 4 || kRows == 8 || kRows == kStreamedRows ? kLinePieces : 1;

// kRows rows of A with kColumnLanes rows of B, from `b` on.
struct StreamedBlock {
  float* c;
  const float* a;  // (depth, kRows): those of one depth stand together, so that no row needs an address of its own
  const float* b;
  const float* bias;  // of these columns; null: none
  std::int64_t ldb, ldc;
  std::int64_t depth;
  bool accumulate;
};

template <int kRows>
[[gnu::always_inline]] inline void multiply_piece(ColumnVector (&sum)[kRows], const float* a, const float* b,
                                                  std::int64_t ldb, std::int64_t depths) {
  ColumnVector column[kPieceDepths];
  load_four_columns(column, b, ldb);
#pragma GCC unroll 4
  for (int d = 0; d < kPieceDepths; ++d) {
    if (d >= depths) break;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) sum[i] = fma(set_columns(a[d * kRows + i]), column[d], sum[i]);
  }
}

template <int kRows>
[[gnu::noinline]] void multiply_streamed(const StreamedBlock& x) {
  for (std::int64_t first = 0; first < x.depth; first += kGemmChunk) {
    const std::int64_t end = first + kGemmChunk < x.depth ? first + kGemmChunk : x.depth;
    ColumnVector sum[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) sum[i] = set_columns(0.0f);
    constexpr std::int64_t kStep = kPieces<kRows> * kPieceDepths;
    std::int64_t d = first;
    for (; d + kStep <= end; d += kStep) {
      if (d % kLineDepths == 0) {
        // The rows behind these come next. The hardware does not see it, as it follows rows.
#pragma GCC unroll 16
        for (int i = 0; i < kColumnLanes; ++i) __builtin_prefetch(x.b + (i + kColumnLanes) * x.ldb + d, 0, 2);
      }
#pragma GCC unroll 4
      for (std::int64_t piece = d; piece < d + kStep; piece += kPieceDepths)
        multiply_piece<kRows>(sum, x.a + piece * kRows, x.b + piece, x.ldb, kPieceDepths);
    }
    if constexpr (kPieces<kRows> != 1) {
      for (; d + kPieceDepths <= end; d += kPieceDepths)
        multiply_piece<kRows>(sum, x.a + d * kRows, x.b + d, x.ldb, kPieceDepths);
    }
    if (d < end) {  // a piece that has fewer depths, with zeros behind
      float rows[kColumnLanes * kPieceDepths] = {};
      for (std::int64_t i = 0; i < kColumnLanes; ++i) {
        for (std::int64_t j = d; j < end; ++j) rows[i * kPieceDepths + j - d] = x.b[i * x.ldb + j];
      }
      multiply_piece<kRows>(sum, x.a + d * kRows, rows, kPieceDepths, end - d);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      float* const c = x.c + i * x.ldc;
      if (first > 0 || x.accumulate) {
        sum[i] = load_columns(c) + sum[i];
      } else if (x.bias != nullptr) {
        sum[i] = load_columns(x.bias) + sum[i];
      }
      store(c, sum[i]);
    }
  }
}

// Exactly so many rows, at most kRows.
template <int kRows = kStreamedRows>
void multiply_streamed_of(const StreamedBlock& x, std::int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_streamed_of<kRows - 1>(x, rows);
  }
  multiply_streamed<kRows>(x);
}

// The whole vectors of columns of a product of at most kMostStreamedRows rows, of which `packed` holds all elements of
// A. Returns how many columns these are.
inline std::int64_t multiply_streamed_columns(const GemmTile& t, float* packed) {
  for (std::int64_t row = 0; row < t.rows; row += kStreamedRows) {
    const std::int64_t rows = t.rows - row < kStreamedRows ? t.rows - row : kStreamedRows;
    const float* const a = t.a.float32() + row * t.lda;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t d = 0; d < t.depth; ++d) packed[row * t.depth + d * rows + i] = a[i * t.lda + d];
    }
  }
  std::int64_t col = 0;
  for (; col + kColumnLanes <= t.cols; col += kColumnLanes) {
    for (std::int64_t row = 0; row < t.rows; row += kStreamedRows) {
      const StreamedBlock block = {t.c.float32() + row * t.ldc + col,
                                   packed + row * t.depth,
                                   t.b.float32() + col * t.ldb,
                                   t.bias != nullptr ? t.bias + col : nullptr,
                                   t.ldb,
                                   t.ldc,
                                   t.depth,
                                   t.accumulate};
      multiply_streamed_of(block, t.rows - row);
    }
  }
  return col;
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
