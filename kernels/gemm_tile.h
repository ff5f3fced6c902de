// SPDX-License-Identifier: Apache-2.0
// One tile of a matrix product, and the definition of its arithmetic: every implementation of it gives the same bits.
//
//   kForward         C (rows, cols) = A (rows, depth) B (cols, depth)^T + bias     y = x W^T + b
//   kInputGradient   C (rows, cols) = A (rows, depth) B (depth, cols)              dx = dy W
//   kWeightGradient  C (rows, cols) = A (depth, rows)^T B (depth, cols)            dW = dy^T x
//
// Arithmetic, for each element of C by itself, with a_d and b_d its factors at depth d:
//   c = what C holds (accumulate), the bias, or nothing
//   for each chunk of kGemmChunk depths, in order:
//     p = 0;  for d in the chunk, in order: p = fma(a_d, b_d, p)
//     c = c + p
// "Nothing" plus p is p. fma rounds once; all rounding is to nearest even. How a product is cut into tiles does not
// show.
//
// bf16: operands are bf16, or float32 numbers that are rounded to bf16 as bf16.h says; bias is float32. A chunk has
// kGemmChunkBf16 depths, taken in pairs, the odd one first:
//   p = fma(a_2q+1, b_2q+1, p);  p = fma(a_2q, b_2q, p)
// with zeros in place of a missing last odd depth. Every operand and every result of fma and of c + p that is subnormal
// (after rounding with an unbounded exponent) is replaced by zero of its sign. This is what VDPBF16PS computes, in the
// order of Intel's Instruction Set Reference, "VDPBF16PS"; a NaN result may have any payload. C is float32, or bf16
// without accumulate: c rounded once, after the last chunk.
//
// Bf16Law::kTiles is another law of the sums of bf16, kPairs the one above. There a chunk has kTileDepths depths, zeros
// in place of missing ones at its end, and two chains:
//   c = what C holds, the bias, or 0
//   for each chunk, in order:
//     e = o = 0;  for each pair, in order: e = fma(a_2q, b_2q, e), o = fma(a_2q+1, b_2q+1, o)
//     c = c + (e + o)
// with subnormal numbers taken and given as zeros likewise. This is what TDPBF16PS computes, in the order of the same
// manual, "TDPBF16PS". gemm_tile_bf16 has the one law, gemm_tile_bf16_tiles the other.
//
// Row-major; lda, ldb and ldc count elements. Nothing past a matrix is read or written. Aliasing: none. Summing in
// chunks keeps the error that of sums of about kGemmChunk terms; bounds in test_gemm.cpp.
//
// B of kForward may be packed, once for many products: see PackColumns. Then b_is_packed, and ldb is depth; cols is a
// multiple of kPackedCols, and so is the column that a tile begins with.
//
// cols <= kGemmTileCols. Scratch: kGemmTileScratchBytes or kGemmTileBf16ScratchBytes, 64-byte aligned, one a thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/elements.h"

namespace bascule {

enum class Bf16Law { kPairs, kTiles };
enum class GemmKind { kForward, kInputGradient, kWeightGradient };

constexpr std::int64_t kGemmChunk = 256;
constexpr std::int64_t kGemmChunkBf16 = 512;
constexpr std::int64_t kTileDepths = 32;
constexpr std::int64_t kGemmTileCols = 384;

struct GemmTile {
  GemmKind kind;
  Elements c;  // float32 but in bf16, as a and b
  ConstElements a, b;
  const float* bias;  // (cols) or null; not with accumulate
  std::int64_t lda, ldb, ldc;
  std::int64_t rows, cols, depth;
  bool accumulate;
  void* scratch;
  bool b_is_packed = false;
};

// Writes kPackedCols columns of a B of kForward, (kPackedCols, depth) dense, in the order in which a tile reads them:
// pack_columns for gemm_tile of the same table; pack_columns_bf16 and pack_columns_bf16_tiles, of bf16, for
// gemm_tile_bf16 and gemm_tile_bf16_tiles. The form is that of the instruction set, and takes as many bytes as B. Only
// where packs_columns() of table.h says so. Aliasing: none.
constexpr std::int64_t kPackedCols = 32;
struct PackColumns {
  Elements packed;
  ConstElements b;
  std::int64_t depth;
};

// A chunk of B, and a few rows of A over the depths of a chunk.
constexpr std::size_t kGemmTileScratchBytes =
    static_cast<std::size_t>(kGemmChunk * kGemmTileCols + 16 * (kGemmChunk + 16)) * sizeof(float);
// The same, and the sums of a tile whose C is bf16, until the last chunk.
constexpr std::int64_t kGemmTilePackedBf16 = kGemmChunkBf16 * kGemmTileCols + 16 * (kGemmChunkBf16 + 16);
constexpr std::int64_t kGemmTileSums = 1 << 18;
constexpr std::size_t kGemmTileBf16ScratchBytes =
    static_cast<std::size_t>(kGemmTilePackedBf16 + kGemmTileSums) * sizeof(float);

}  // namespace bascule
