// SPDX-License-Identifier: Apache-2.0
// A tile chunk by chunk: the chunk of B is packed, unless B is already, into the second-level cache; then a few rows of
// A at a time, into the first, which every block of columns uses. Where A has few rows, they are packed first. Steps:
// Float32Steps or Bf16Steps, each in a unit of its own.
#pragma once

#include <cstdint>

#include "kernels/gemm_tile.h"
#include "kernels/lanes/lanes.h"
#include "kernels/simd/gemm_block.h"
#include "kernels/simd/packing.h"
#include "kernels/simd/streamed_product.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Packing writes whole vectors: up to 15 numbers past a row are overwritten.

// `count` numbers of x as bf16: x's own, or rounded into `rounded`.
inline const std::uint16_t* as_bf16(ConstElements x, std::int64_t count, std::uint16_t* rounded) {
  if (x.is_bf16()) return x.bf16();
  for_lanes(
      count, [&](auto lanes, std::int64_t c)
                 __attribute__((always_inline)) { store_bf16(rounded + c, load(x.float32() + c, lanes)); });
  return rounded;
}

// steps[r * pitch + s]: `rows` rows of a matrix whose depths lie side by side.
template <typename Steps>
void pack_row_steps(float* steps, std::int64_t pitch, ConstElements x, std::int64_t stride, std::int64_t rows,
                    std::int64_t depths) {
  if constexpr (!Steps::kPairs) return pack_rows(steps, pitch, x.float32(), stride, rows, depths);
  std::uint16_t rounded[kGemmChunkBf16 + kLanes];
  for (std::int64_t r = 0; r < rows; ++r) {
    float* const out = steps + r * pitch;
    const std::uint16_t* const row = as_bf16(x + r * stride, depths, rounded);
    if constexpr (Steps::kIsPacked) {
      if (depths % 2 != 0) out[depths / 2] = 0.0f;  // in place of the missing last odd depth
      __builtin_memcpy(out, row, static_cast<std::size_t>(depths) * sizeof *row);
    } else {
      for (std::int64_t s = (depths + 1) / 2 * 2; s < steps_of<Steps>(depths); ++s) out[s] = 0.0f;
      for (std::int64_t d = 0; d + 1 < depths; d += 2) {
        out[d] = widened(row[d + 1]);
        out[d + 1] = widened(row[d]);
      }
      if (depths % 2 == 0) continue;
      out[depths - 1] = 0.0f;
      out[depths] = widened(row[depths - 1]);
    }
  }
}

template <typename Lanes>
f32x16 load_rounded(const float* x, Lanes lanes) {
  return round_to_bf16(load(x, lanes));
}
template <typename Lanes>
f32x16 load_rounded(const std::uint16_t* x, Lanes lanes) {
  return load(x, lanes);
}

template <typename Steps, typename Number>
void pack_pairs(float* steps, std::int64_t pitch, const Number* x, std::int64_t stride, std::int64_t depths,
                std::int64_t cols) {
  // All lanes are read wherever that stays within the matrix; what lies beside the columns is overwritten or not used.
  const std::int64_t end = (depths - 1) * stride + cols;
  const auto row = [&](std::int64_t d, std::int64_t c) __attribute__((always_inline)) {
    if (d >= depths) return set(0.0f);  // in place of missing depths at the end
    const std::int64_t at = d * stride + c;
    return at + kLanes <= end ? load_rounded(x + at, AllLanes{}) : load_rounded(x + at, FirstLanes{cols - c});
  };
  for (std::int64_t step = 0, d = 0; step < steps_of<Steps>(depths); step += kPairSteps<Steps>, d += 2) {
    for (std::int64_t c = 0; c < cols; c += kLanes) {
      Steps::store_steps(steps + c, pitch, row(d, c), row(d + 1, c));
    }
    steps += kPairSteps<Steps> * pitch;
  }
}

// steps[s * pitch + c]: `cols` columns, at most those of a block, of a matrix whose depths lie `stride` apart.
template <typename Steps>
void pack_steps(float* steps, std::int64_t pitch, ConstElements x, std::int64_t stride, std::int64_t depths,
                std::int64_t cols) {
  if constexpr (!Steps::kPairs) {
    pack_rows(steps, pitch, x.float32(), stride, depths, cols);
  } else if (x.is_bf16()) {
    pack_pairs<Steps>(steps, pitch, x.bf16(), stride, depths, cols);
  } else {
    pack_pairs<Steps>(steps, pitch, x.float32(), stride, depths, cols);
  }
}

// The same from a matrix whose depths lie side by side. `rows_of_steps` holds 16 rows of kRowPitch.
template <typename Steps>
void pack_steps_transposed(float* steps, ConstElements x, std::int64_t stride, std::int64_t depths, std::int64_t cols,
                           float* rows_of_steps) {
  if constexpr (!Steps::kPairs) return pack_transposed<false>(steps, kBlockCols, x.float32(), stride, cols, depths);
  for (std::int64_t c = 0; c < cols; c += kLanes) {
    const std::int64_t count = least(kLanes, cols - c);
    pack_row_steps<Steps>(rows_of_steps, kRowPitch<Steps>, x + c * stride, stride, count, depths);
    pack_transposed<false>(steps + c, kBlockCols, rows_of_steps, kRowPitch<Steps>, count, steps_of<Steps>(depths));
  }
}

// Layout of a packed B: blocks of kBlockCols columns one after another; within a block its chunks, each as the steps
// that multiply_block() reads.

// Steps of widened numbers take more bytes than B: there none is packed.
template <typename Steps>
constexpr bool kKeepsBytes = !Steps::kPairs || Steps::kIsPacked;
template <typename Steps>
bool has_packed_b(const GemmTile& t) {
  return kKeepsBytes<Steps> && t.b_is_packed;
}
// Where the steps from depth `first` on, at which a chunk begins, lie for the block from column `col` on.
constexpr std::int64_t packed_place(std::int64_t depth, std::int64_t col, std::int64_t first) {
  return col * depth + first * kBlockCols;
}
inline const float* packed_steps(const GemmTile& t, std::int64_t col, std::int64_t first) {
  return static_cast<const float*>((t.b + packed_place(t.depth, col, first)).data);
}

template <typename Steps>
void pack_all_columns(const PackColumns& a) {
  static_assert(kPackedCols % kBlockCols == 0);
  if constexpr (!kKeepsBytes<Steps>) return;
  alignas(64) float rows_of_steps[kLanes * kRowPitch<Steps>];
  for (std::int64_t col = 0; col < kPackedCols; col += kBlockCols) {
    for (std::int64_t first = 0; first < a.depth; first += Steps::kChunk) {
      const Elements steps = a.packed + packed_place(a.depth, col, first);
      pack_steps_transposed<Steps>(static_cast<float*>(steps.data), a.b + (col * a.depth + first), a.depth,
                                   least(Steps::kChunk, a.depth - first), kBlockCols, rows_of_steps);
    }
  }
}

template <typename Steps>
void pack_b(float* packed, const GemmTile& t, std::int64_t first, std::int64_t depths, std::int64_t first_col,
            float* rows_of_steps) {
  for (std::int64_t col = first_col; col < t.cols; col += kBlockCols) {
    const std::int64_t cols = least(kBlockCols, t.cols - col);
    if (t.kind == GemmKind::kForward) {
      pack_steps_transposed<Steps>(packed, t.b + (col * t.ldb + first), t.ldb, depths, cols, rows_of_steps);
    } else {
      pack_steps<Steps>(packed, kBlockCols, t.b + (first * t.ldb + col), t.ldb, depths, cols);
    }
    packed += kChunkSteps<Steps> * kBlockCols;
  }
}

// float32 numbers whose columns lie side by side may be multiplied where they are, which is faster as long as the steps
// of a chunk touch few pages of memory, or each page is used a few times only (measured on Sapphire Rapids).
template <typename Steps>
bool reads_b_in_place(const GemmTile& t) {
  constexpr std::int64_t kShortRow = 512, kLongRow = 1024, kFew = 256;
  return !Steps::kPairs && t.kind != GemmKind::kForward &&
         (t.ldb <= kShortRow || (t.ldb <= kLongRow && (t.rows <= kFew || t.depth <= kFew)));
}
template <typename Steps>
bool reads_a_in_place(const GemmTile& t) {
  constexpr std::int64_t kMostCols = 128;  // packing pays where more blocks of columns use it
  return !Steps::kPairs && t.kind == GemmKind::kWeightGradient && t.cols <= kMostCols;
}

// Rows of A against all of B. Where C is bf16 and there are several chunks, `sums` (rows, cols) holds C until the last.
template <typename Steps, LayoutA kLayoutA>
void multiply_rows(const GemmTile& t, float* sums) {
  float* const packed_b = static_cast<float*>(t.scratch);
  float* const packed_a = packed_b + kChunkSteps<Steps> * kGemmTileCols;
  const bool has_packed = has_packed_b<Steps>(t), reads_b = reads_b_in_place<Steps>(t),
             reads_a = reads_a_in_place<Steps>(t);
  const std::int64_t cols_in_place = reads_b ? t.cols / kBlockCols * kBlockCols : 0;  // the last block may be packed
  const Elements so_far = sums != nullptr ? Elements(sums) : t.c;
  const std::int64_t so_far_row = sums != nullptr ? t.cols : t.ldc;
  for (std::int64_t first = 0; first < t.depth; first += Steps::kChunk) {
    const std::int64_t depths = least(Steps::kChunk, t.depth - first);
    if (!has_packed) pack_b<Steps>(packed_b, t, first, depths, cols_in_place, packed_a);
    const bool is_added = first > 0 || t.accumulate, is_last = first + depths == t.depth;
    for (std::int64_t row = 0; row < t.rows; row += kBlockRows) {
      const std::int64_t rows = least(kBlockRows, t.rows - row);
      GemmBlock block{};
      block.c = is_last ? t.c + row * t.ldc : so_far + row * so_far_row;
      block.ldc = is_last ? t.ldc : so_far_row;
      block.a = packed_a;
      block.a_step = kBlockRows;
      block.steps = steps_of<Steps>(depths);
      block.start_row = is_added ? so_far_row : 0;
      if (kLayoutA == LayoutA::kRows) {
        pack_row_steps<Steps>(packed_a, kRowPitch<Steps>, t.a + (row * t.lda + first), t.lda, rows, depths);
      } else if (reads_a) {
        block.a = t.a.float32() + first * t.lda + row;
        block.a_step = t.lda;
      } else {
        pack_steps<Steps>(packed_a, kBlockRows, t.a + (first * t.lda + row), t.lda, depths, rows);
      }
      for (std::int64_t col = 0; col < t.cols; col += kBlockCols) {
        const bool is_packed = col >= cols_in_place;
        block.b = has_packed  ? packed_steps(t, col, first)
                  : is_packed ? packed_b + (col - cols_in_place) * kChunkSteps<Steps>
                              : t.b.float32() + first * t.ldb + col;
        block.b_step = is_packed ? kBlockCols : t.ldb;
        block.start = is_added ? so_far.float32() + row * so_far_row + col : t.bias != nullptr ? t.bias + col : nullptr;
        block.cols = t.cols - col;
        multiply_block_of<Steps, kLayoutA>(block, rows);
        block.c += kBlockCols;
      }
    }
  }
}

template <typename Steps, LayoutA kLayoutA>
void multiply_tile(const GemmTile& t) {
  if (!t.c.is_bf16() || t.depth <= Steps::kChunk) return multiply_rows<Steps, kLayoutA>(t, nullptr);
  float* const sums = static_cast<float*>(t.scratch) + kGemmTilePackedBf16;
  const std::int64_t most_rows = kGemmTileSums / t.cols;
  for (std::int64_t row = 0; row < t.rows; row += most_rows) {
    GemmTile part = t;
    part.c += row * t.ldc;
    part.a += kLayoutA == LayoutA::kRows ? row * t.lda : row;
    part.rows = least(most_rows, t.rows - row);
    multiply_rows<Steps, kLayoutA>(part, sums);
  }
}

// Where the numbers of a product of few rows lie in the scratch: a block of columns of a chunk of B, 16 of its rows
// before they are transposed, and all of A, chunk by chunk.
template <typename Steps>
constexpr std::int64_t kFewRowsB = kChunkSteps<Steps>* kBlockCols;
template <typename Steps>
constexpr std::int64_t kFewRowsA = kFewRowsB<Steps> + kLanes* kRowPitch<Steps>;

// Whether the product is of so few rows that its time is that of reading B. Then each block of columns is packed, over
// all depths, right before its use, so that B streams through the first-level cache.
template <typename Steps>
bool has_few_rows(const GemmTile& t) {
  constexpr std::int64_t kMostRows = 64, kRoom = kChunkSteps<Steps> * kGemmTileCols - kFewRowsA<Steps>;
  const std::int64_t chunks = (t.depth + Steps::kChunk - 1) / Steps::kChunk;
  return t.kind == GemmKind::kForward && t.rows <= kMostRows && t.rows * chunks * kRowPitch<Steps> <= kRoom;
}

template <typename Steps>
void multiply_few_rows(const GemmTile& t) {
  float* const packed_b = static_cast<float*>(t.scratch);
  float* const packed_a = packed_b + kFewRowsA<Steps>;
  // C until the last chunk, where it is bf16.
  float* const sums = t.c.is_bf16() ? packed_b + kGemmTilePackedBf16 : nullptr;
  for (std::int64_t first = 0; first < t.depth; first += Steps::kChunk) {
    pack_row_steps<Steps>(packed_a + first / Steps::kChunk * t.rows * kRowPitch<Steps>, kRowPitch<Steps>, t.a + first,
                          t.lda, t.rows, least(Steps::kChunk, t.depth - first));
  }
  for (std::int64_t col = 0; col < t.cols; col += kBlockCols) {
    const Elements c = t.c + col;
    const Elements so_far = sums != nullptr ? Elements(sums) : c;
    const std::int64_t so_far_row = sums != nullptr ? kBlockCols : t.ldc;
    for (std::int64_t first = 0; first < t.depth; first += Steps::kChunk) {
      const std::int64_t depths = least(Steps::kChunk, t.depth - first);
      const bool is_added = first > 0 || t.accumulate, is_last = first + depths == t.depth;
      if (!has_packed_b<Steps>(t))
        pack_steps_transposed<Steps>(packed_b, t.b + (col * t.ldb + first), t.ldb, depths,
                                     least(kBlockCols, t.cols - col), packed_b + kFewRowsB<Steps>);
      GemmBlock block{};
      block.a = packed_a + first / Steps::kChunk * t.rows * kRowPitch<Steps>;
      block.b = has_packed_b<Steps>(t) ? packed_steps(t, col, first) : packed_b;
      block.b_step = kBlockCols;
      block.ldc = is_last ? t.ldc : so_far_row;
      block.steps = steps_of<Steps>(depths);
      block.start_row = is_added ? so_far_row : 0;
      block.cols = t.cols - col;
      for (std::int64_t row = 0; row < t.rows; row += kBlockRows) {
        block.c = is_last ? c + row * t.ldc : so_far + row * so_far_row;
        block.start = is_added ? so_far.float32() + row * so_far_row : t.bias != nullptr ? t.bias + col : nullptr;
        multiply_block_of<Steps, LayoutA::kRows>(block, least(kBlockRows, t.rows - row));
        block.a += kBlockRows * kRowPitch<Steps>;
      }
    }
  }
}

// The rest is left to packing: columns that fill no vector.
template <typename Steps>
void multiply_few_rows_of(GemmTile t) {
  if constexpr (!Steps::kPairs) {
    if (t.rows <= kMostStreamedRows && !has_packed_b<Steps>(t)) {
      const std::int64_t cols = multiply_streamed_columns(t, static_cast<float*>(t.scratch));
      t.c += cols;
      t.b += cols * t.ldb;
      if (t.bias != nullptr) t.bias += cols;
      t.cols -= cols;
    }
  }
  multiply_few_rows<Steps>(t);
}

template <typename Steps>
void multiply(const GemmTile& t) {
  if (t.depth == 0 && !t.accumulate) {  // a sum of nothing
    for (std::int64_t row = 0; row < t.rows; ++row) {
      for_lanes(
          t.cols, [&](auto lanes, std::int64_t col) __attribute__((always_inline)) {
            store(t.c, row * t.ldc + col, lanes, t.bias != nullptr ? load(t.bias + col, lanes) : set(0.0f));
          });
    }
  }
  if (t.kind == GemmKind::kWeightGradient) {
    multiply_tile<Steps, LayoutA::kSteps>(t);
  } else if (has_few_rows<Steps>(t)) {
    multiply_few_rows_of<Steps>(t);
  } else {
    multiply_tile<Steps, LayoutA::kRows>(t);
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
