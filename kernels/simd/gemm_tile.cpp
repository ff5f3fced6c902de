// SPDX-License-Identifier: Apache-2.0
// A tile chunk by chunk: the chunk of B is packed once, into the second-level cache; then a few rows of A at a time,
// into the first, which every block of columns uses.
#include "kernels/gemm_tile.h"

#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "kernels/simd/gemm_block.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/packing.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Packing writes whole vectors: up to 15 numbers past a row are overwritten.

// words[r * pitch + s]: `rows` rows of a matrix whose depths lie side by side.
void pack_words(float* words, std::int64_t pitch, const float* x, std::int64_t stride, std::int64_t rows,
                std::int64_t depths) {
  pack_rows(words, pitch, x, stride, rows, depths);
}
void pack_words(float* words, std::int64_t pitch, const std::uint16_t* x, std::int64_t stride, std::int64_t rows,
                std::int64_t depths) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (depths % 2 != 0) words[r * pitch + depths / 2] = 0.0f;  // in place of the missing last odd depth
    __builtin_memcpy(words + r * pitch, x + r * stride, static_cast<std::size_t>(depths) * sizeof *x);
  }
}

// words[s * words_stride + c]: `cols` columns of a matrix whose depths lie `stride` apart.
void pack_steps(float* words, std::int64_t words_stride, const float* x, std::int64_t stride, std::int64_t depths,
                std::int64_t cols) {
  pack_rows(words, words_stride, x, stride, depths, cols);
}
void pack_steps(float* words, std::int64_t words_stride, const std::uint16_t* x, std::int64_t stride,
                std::int64_t depths, std::int64_t cols) {
  static constexpr std::uint16_t kZeros[kBlockCols > kBlockRows ? kBlockCols : kBlockRows] = {};
  for (std::int64_t d = 0; d < depths; d += 2) {
    const std::uint16_t* const even = x + d * stride;
    const std::uint16_t* const odd = d + 1 < depths ? even + stride : kZeros;
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::uint32_t pair = even[c] | static_cast<std::uint32_t>(odd[c]) << 16;
      __builtin_memcpy(words + c, &pair, sizeof pair);
    }
    words += words_stride;
  }
}

// The same from a matrix whose depths lie side by side. `rows_of_words` holds 16 rows of kWordsPitch.
constexpr std::int64_t kWordsPitch = kChunkSteps + 16;
void pack_steps_transposed(float* words, const float* x, std::int64_t stride, std::int64_t depths, std::int64_t cols,
                           float*) {
  pack_transposed<false>(words, kBlockCols, x, stride, cols, depths);
}
void pack_steps_transposed(float* words, const std::uint16_t* x, std::int64_t stride, std::int64_t depths,
                           std::int64_t cols, float* rows_of_words) {
  for (std::int64_t c = 0; c < cols; c += kLanes) {
    const std::int64_t count = least(kLanes, cols - c);
    pack_words(rows_of_words, kWordsPitch, x + c * stride, stride, count, depths);
    pack_transposed<false>(words + c, kBlockCols, rows_of_words, kWordsPitch, count, (depths + 1) / 2);
  }
}

// The numbers of A for a block: words as they are, or pairs as two factors each, the odd one first.
template <typename Steps>
void pack_a_rows(float* numbers, const typename Steps::Element* x, std::int64_t stride, std::int64_t rows,
                 std::int64_t depths) {
  if constexpr (Steps::kFactors == 1) {
    pack_words(numbers, kRowPitch<Steps>, x, stride, rows, depths);
  } else {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const out = numbers + r * kRowPitch<Steps>;
      const std::uint16_t* const row = x + r * stride;
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
template <typename Steps>
void pack_a_steps(float* numbers, const typename Steps::Element* x, std::int64_t stride, std::int64_t depths,
                  std::int64_t rows) {
  if constexpr (Steps::kFactors == 1) {
    pack_steps(numbers, kBlockRows, x, stride, depths, rows);
  } else {
    for (std::int64_t d = 0; d < depths; d += 2) {
      for (std::int64_t i = 0; i < rows; ++i) {
        numbers[i] = d + 1 < depths ? widened(x[(d + 1) * stride + i]) : 0.0f;
        numbers[kBlockRows + i] = widened(x[d * stride + i]);
      }
      numbers += 2 * kBlockRows;
    }
  }
}

template <typename Steps>
using TileOf = GemmTileOf<typename Steps::Element>;

template <typename Steps>
void pack_b(float* packed, const TileOf<Steps>& t, std::int64_t first, std::int64_t depths, std::int64_t first_col,
            float* rows_of_words) {
  for (std::int64_t col = first_col; col < t.cols; col += kBlockCols) {
    const std::int64_t cols = least(kBlockCols, t.cols - col);
    if (t.kind == GemmKind::kForward) {
      pack_steps_transposed(packed, t.b + col * t.ldb + first, t.ldb, depths, cols, rows_of_words);
    } else {
      pack_steps(packed, kBlockCols, t.b + first * t.ldb + col, t.ldb, depths, cols);
    }
    packed += kChunkSteps * kBlockCols;
  }
}

// float32 numbers whose columns lie side by side may be multiplied where they are, which is faster as long as the steps
// of a chunk touch few pages of memory, or each page is used a few times only (measured on Sapphire Rapids).
bool reads_b_in_place(const GemmTile& t) {
  constexpr std::int64_t kShortRow = 512, kLongRow = 1024, kFew = 256;
  return t.kind != GemmKind::kForward &&
         (t.ldb <= kShortRow || (t.ldb <= kLongRow && (t.rows <= kFew || t.depth <= kFew)));
}
bool reads_b_in_place(const GemmTileBf16&) { return false; }
bool reads_a_in_place(const GemmTile& t) {
  constexpr std::int64_t kMostCols = 128;  // packing pays where more blocks of columns use it
  return t.kind == GemmKind::kWeightGradient && t.cols <= kMostCols;
}
bool reads_a_in_place(const GemmTileBf16&) { return false; }

template <typename Steps>
constexpr const float* in_place(const typename Steps::Element* x) {
  if constexpr (Steps::kDepths == 1) {
    return x;
  } else {
    return nullptr;
  }
}

template <typename Steps, LayoutA kLayoutA>
void multiply_tile(const TileOf<Steps>& t) {
  float* const packed_b = static_cast<float*>(t.scratch);
  float* const packed_a = packed_b + kChunkSteps * kGemmTileCols;
  constexpr std::int64_t kDepths = kChunkSteps * Steps::kDepths;
  const bool reads_b = reads_b_in_place(t), reads_a = reads_a_in_place(t);
  const std::int64_t cols_in_place = reads_b ? t.cols / kBlockCols * kBlockCols : 0;  // the last block may be packed
  for (std::int64_t first = 0; first < t.depth; first += kDepths) {
    const std::int64_t depths = least(kDepths, t.depth - first);
    pack_b<Steps>(packed_b, t, first, depths, cols_in_place, packed_a);
    const bool is_added = first > 0 || t.accumulate;
    for (std::int64_t row = 0; row < t.rows; row += kBlockRows) {
      const std::int64_t rows = least(kBlockRows, t.rows - row);
      GemmBlock block{t.c + row * t.ldc,
                      t.ldc,
                      packed_a,
                      kBlockRows,
                      packed_b,
                      kBlockCols,
                      (depths + Steps::kDepths - 1) / Steps::kDepths,
                      nullptr,
                      0,
                      0};
      if (kLayoutA == LayoutA::kRows) {
        pack_a_rows<Steps>(packed_a, t.a + row * t.lda + first, t.lda, rows, depths);
      } else if (reads_a) {
        block.a = in_place<Steps>(t.a + first * t.lda + row);
        block.a_step = t.lda;
      } else {
        pack_a_steps<Steps>(packed_a, t.a + first * t.lda + row, t.lda, depths, rows);
      }
      for (std::int64_t col = 0; col < t.cols; col += kBlockCols) {
        const bool is_packed = col >= cols_in_place;
        block.b =
            is_packed ? packed_b + (col - cols_in_place) * kChunkSteps : in_place<Steps>(t.b + first * t.ldb + col);
        block.b_step = is_packed ? kBlockCols : t.ldb;
        block.start = is_added ? block.c : t.bias != nullptr ? t.bias + col : nullptr;
        block.start_row = is_added ? t.ldc : 0;
        block.cols = t.cols - col;
        multiply_block_of<Steps, kLayoutA>(block, rows);
        block.c += kBlockCols;
      }
    }
  }
}

template <typename Steps>
void multiply(const TileOf<Steps>& t) {
  if (t.depth == 0 && !t.accumulate) {  // a sum of nothing
    for (std::int64_t row = 0; row < t.rows; ++row) {
      for (std::int64_t col = 0; col < t.cols; ++col) t.c[row * t.ldc + col] = t.bias != nullptr ? t.bias[col] : 0.0f;
    }
  }
  if (t.kind == GemmKind::kWeightGradient) {
    multiply_tile<Steps, LayoutA::kSteps>(t);
  } else {
    multiply_tile<Steps, LayoutA::kRows>(t);
  }
}

}  // namespace

void gemm_tile(const GemmTile& tile) { multiply<Float32Steps>(tile); }

void gemm_tile_bf16(const GemmTileBf16& tile) {
  const SubnormalsAreZeros mode;
  multiply<Bf16Steps>(tile);
}

}  // namespace bascule::BASCULE_ISA
