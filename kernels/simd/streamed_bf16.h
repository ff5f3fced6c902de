// SPDX-License-Identifier: Apache-2.0
// streamed_product.h in the arithmetic of bf16 (gemm_tile.h): products of a few rows, whose time is that of
// reading B, bf16 or float32. Pieces of B are transposed on their way from memory to the registers, and widened or
// rounded there.
#pragma once

#include <cstdint>

#include "kernels/gemm_tile.h"
#include "kernels/lanes/lanes.h"
#include "kernels/lanes/lanes_pairs.h"
#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {
namespace {

// A piece of a row of B, and a line of memory.
constexpr std::int64_t kPieceBytes = 16, kLineBytes = kLinePieces * kPieceBytes;
template <typename Number>
constexpr std::int64_t kDepthsOfPiece = kPieceBytes / static_cast<std::int64_t>(sizeof(Number));

// Rows of A at a time. Without vectors one: more would gain nothing there, and take 700 kB of instructions.
#ifdef BASCULE_SCALAR_LANES
constexpr int kStreamedBf16Rows = 1;
#else
constexpr int kStreamedBf16Rows = kStreamedRows;
#endif

// kRows rows of A with kColumnLanes rows of B, from `b` on.
template <typename Number>
struct StreamedBf16 {
  Elements c;
  const float* a;        // steps of a chunk: rows lie kRowPitch apart, so that no row needs an address of its own
  std::int64_t a_chunk;  // from a chunk of A to the next
  const Number* b;
  const float* bias;  // of these columns; null: none
  std::int64_t ldb, ldc;
  std::int64_t depth;
  bool accumulate;
};

// The steps of two depths.
inline void set_steps(ColumnVector* steps, ColumnVector even, ColumnVector odd) {
#if defined(__AVX512BF16__) && !defined(BASCULE_SCALAR_LANES)
  steps[0] = pairs_of(even, odd);
#else
  steps[0] = odd;
  steps[1] = even;
#endif
}
// Those of four words of each row of B.
inline void set_steps(ColumnVector* steps, const ColumnVector (&words)[4], const float*) {
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2)
    set_steps(steps + steps_of<Bf16Steps>(i), round_to_bf16(words[i]), round_to_bf16(words[i + 1]));
}
inline void set_steps(ColumnVector* steps, const ColumnVector (&words)[4], const std::uint16_t*) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    if (Bf16Steps::kIsPacked) {
      steps[i] = words[i];
    } else {
      set_steps(steps + 2 * i, even_numbers(words[i]), odd_numbers(words[i]));
    }
  }
}

inline ColumnVector multiply_add(ColumnVector a, ColumnVector b, ColumnVector sum) {
#if defined(__AVX512F__) || defined(BASCULE_SCALAR_LANES)
  return Bf16Steps::multiply_add(a, b, sum);
#else
  return fma(a, b, sum);  // under SubnormalsAreZeros
#endif
}
inline ColumnVector add(ColumnVector c, ColumnVector sum) {
#if defined(__AVX512F__) || defined(BASCULE_SCALAR_LANES)
  return Bf16Steps::add(c, sum);
#else
  return c + sum;
#endif
}

template <typename Number, int kRows>
[[gnu::always_inline]] inline void multiply_bf16_piece(ColumnVector (&sum)[kRows], const float* a, const Number* b,
                                                       std::int64_t ldb, std::int64_t depths) {
  constexpr std::int64_t kSteps = steps_of<Bf16Steps>(kDepthsOfPiece<Number>);
  const std::int64_t steps = steps_of<Bf16Steps>(depths);
  ColumnVector words[4], step[8];
  load_four_words(words, b, ldb);
  set_steps(step, words, b);
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s) {
    if (s >= steps) break;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
      sum[i] = multiply_add(set_columns(a[i * kRowPitch<Bf16Steps> + s]), step[s], sum[i]);
  }
}

// sum[i] += the products of row i of A with `depths` of B's, at most those of a chunk.
template <typename Number, int kRows>
[[gnu::always_inline]] inline void multiply_bf16_chunk(ColumnVector (&sum)[kRows], const float* a, const Number* b,
                                                       std::int64_t ldb, std::int64_t depths) {
  constexpr std::int64_t kPiece = kDepthsOfPiece<Number>, kLine = kPiece * (kLineBytes / kPieceBytes);
  constexpr std::int64_t kStep = kPieces<kRows> * kPiece;
  std::int64_t d = 0;
  for (; d + kStep <= depths; d += kStep) {
    if (d % kLine == 0) {
      // The rows behind these come next. The hardware does not see it, as it follows rows.
#pragma GCC unroll 16
      for (int i = 0; i < kColumnLanes; ++i) __builtin_prefetch(b + (i + kColumnLanes) * ldb + d, 0, 2);
    }
#pragma GCC unroll 4
    for (std::int64_t piece = d; piece < d + kStep; piece += kPiece)
      multiply_bf16_piece(sum, a + steps_of<Bf16Steps>(piece), b + piece, ldb, kPiece);
  }
  if constexpr (kPieces<kRows> != 1) {
    for (; d + kPiece <= depths; d += kPiece) multiply_bf16_piece(sum, a + steps_of<Bf16Steps>(d), b + d, ldb, kPiece);
  }
  if (d == depths) return;
  Number rows[kColumnLanes * kPiece] = {};  // a piece that has fewer depths, with zeros behind
  for (std::int64_t i = 0; i < kColumnLanes; ++i) {
    for (std::int64_t j = d; j < depths; ++j) rows[i * kPiece + j - d] = b[i * ldb + j];
  }
  multiply_bf16_piece<Number>(sum, a + steps_of<Bf16Steps>(d), rows, kPiece, depths - d);
}

// The sums of a chunk, (rows, kColumnLanes), added to what they start with: those of the chunks before in so_far, C,
// the bias, or nothing. The last ones go to C, the others to so_far. A function of its own, as add_to_c() is.
template <typename Number>
[[gnu::noinline]] void add_chunk(const StreamedBf16<Number>& x, float* so_far, const float* sums, int rows,
                                 bool is_first, bool is_last) {
  for (int i = 0; i < rows; ++i) {
    const float* start = x.bias;
    if (x.accumulate) start = x.c.float32() + i * x.ldc;
    if (!is_first) start = so_far + i * kColumnLanes;
    ColumnVector sum = load_columns(sums + i * kColumnLanes);
    if (start != nullptr) sum = add(load_columns(start), sum);
    is_last ? store_columns(x.c + i * x.ldc, sum) : store(so_far + i * kColumnLanes, sum);
  }
}

template <typename Number, int kRows>
[[gnu::noinline]] void multiply_bf16(const StreamedBf16<Number>& x) {
  alignas(64) float so_far[kRows * kColumnLanes], sums[kRows * kColumnLanes];
  const float* a = x.a;
  for (std::int64_t first = 0; first < x.depth; first += kGemmChunkBf16) {
    const bool is_last = first + kGemmChunkBf16 >= x.depth;
    ColumnVector sum[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) sum[i] = set_columns(0.0f);
    multiply_bf16_chunk(sum, a, x.b + first, x.ldb, is_last ? x.depth - first : kGemmChunkBf16);
    a += x.a_chunk;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) store(sums + i * kColumnLanes, sum[i]);
    add_chunk(x, so_far, sums, kRows, first == 0, is_last);
  }
}

// Exactly so many rows, at most kRows.
template <typename Number, int kRows = kStreamedBf16Rows>
void multiply_bf16_of(const StreamedBf16<Number>& x, std::int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_bf16_of<Number, kRows - 1>(x, rows);
  }
  multiply_bf16<Number, kRows>(x);
}

// The whole vectors of columns. Returns how many columns these are.
template <typename Number>
std::int64_t multiply_bf16_columns(const GemmTile& t, const Number* b) {
  constexpr std::int64_t kPitch = kRowPitch<Bf16Steps>;
  float* const packed = static_cast<float*>(t.scratch);
  for (std::int64_t first = 0; first < t.depth; first += kGemmChunkBf16) {
    pack_row_steps<Bf16Steps>(packed + first / kGemmChunkBf16 * t.rows * kPitch, kPitch, t.a + first, t.lda, t.rows,
                              least(kGemmChunkBf16, t.depth - first));
  }
  std::int64_t col = 0;
  for (; col + kColumnLanes <= t.cols; col += kColumnLanes) {
    for (std::int64_t row = 0; row < t.rows; row += kStreamedBf16Rows) {
      const StreamedBf16<Number> block = {t.c + (row * t.ldc + col),
                                          packed + row * kPitch,
                                          t.rows * kPitch,
                                          b + col * t.ldb,
                                          t.bias != nullptr ? t.bias + col : nullptr,
                                          t.ldb,
                                          t.ldc,
                                          t.depth,
                                          t.accumulate};
      multiply_bf16_of<Number>(block, t.rows - row);
    }
  }
  return col;
}

// The columns of a product of few rows that are multiplied without packing them; 0 of other products.
inline std::int64_t multiply_streamed_bf16(const GemmTile& t) {
  if (t.depth == 0 || t.rows > kMostStreamedRows || !has_few_rows<Bf16Steps>(t) || has_packed_b<Bf16Steps>(t)) return 0;
  return t.b.is_bf16() ? multiply_bf16_columns(t, t.b.bf16()) : multiply_bf16_columns(t, t.b.float32());
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
