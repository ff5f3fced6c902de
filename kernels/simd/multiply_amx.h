// SPDX-License-Identifier: Apache-2.0
// Products by TDPBF16PS, in the arithmetic of Bf16Law::kTiles (gemm_tile.h). Operands are packed as tiles of 16 rows of
// 64 bytes: of A 16 rows of 32 depths; of B 16 pairs of depths of 16 columns. Four tiles hold 32 x 32 sums: two of A
// and two of B are multiplied with each other, so that each is loaded once for two products.
//
//   for each strip of columns, for each chunk of depths: pack it of B, into the second-level cache;
//     for each 32 rows, for each piece of the chunk: pack it of A, into the first; multiply it with all columns
//
// The sums go on in C from piece to piece. C in bf16 cannot hold them, so all depths are one piece, and strips are
// narrow.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm_tile.h"
#include "kernels/lanes/lanes.h"
#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileNumbers = kTileRows * kTileDepths;  // bf16
constexpr std::int64_t kAmxBlock = 2 * kTileRows;               // rows and columns of four tiles
constexpr std::int64_t kLongestAmxPiece = 384, kLongestAmxChunk = 3 * kLongestAmxPiece;  // depths

constexpr std::int64_t rounded_up(std::int64_t a, std::int64_t unit) { return (a + unit - 1) / unit * unit; }

// While one lives, this thread has eight tiles of full size. Without them a thread's state is small again.
class TilesInUse {
 public:
  TilesInUse() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } configuration;
    static_assert(sizeof configuration == 64);
    asm volatile("" : : "r"(&configuration) : "memory");
    _tile_loadconfig(&configuration);
  }
  ~TilesInUse() { _tile_release(); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

// out[i] for 16 rows, (16 dwords each), transposed. Rows of `out` and of `x` follow one another.
inline void transpose_tile(std::uint16_t* out, const std::uint16_t* x) {
  float* const to = static_cast<float*>(static_cast<void*>(out));
  const float* const from = static_cast<const float*>(static_cast<const void*>(x));
  for (int i = 0; i < 16; i += 8) {
    for (int j = 0; j < 16; j += 8) transpose_eight<false>(to + j * 16 + i, 16, from + i * 16 + j, 16, 1.0f);
  }
}

// 16 numbers, of which `count` exist, as bf16; zeros beyond.
inline __m256i sixteen(const std::uint16_t* x, std::int64_t count) {
  if (count >= 16) return _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(x)));
  alignas(32) std::uint16_t numbers[16] = {};
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = x[i];
  return _mm256_load_si256(static_cast<const __m256i*>(static_cast<const void*>(numbers)));
}
inline __m256i sixteen(const float* x, std::int64_t count) {
  const f32x16 numbers = count >= 16 ? load(x) : count <= 0 ? set(0.0f) : load_partial(x, count, 0.0f);
  const __m256i quarters = _mm256_packus_epi32(bf16_bits(numbers.low), bf16_bits(numbers.high));
  return _mm256_permute4x64_epi64(quarters, 0xd8);
}
inline void put_sixteen(std::uint16_t* out, __m256i x) {
  _mm256_store_si256(static_cast<__m256i*>(static_cast<void*>(out)), x);
}

// Rows of tiles from a matrix whose depths lie side by side: those of row r of `tiles` at tiles + 32 r, the next 32
// depths kTileNumbers further on. Rows and depths that do not exist are zeros.
template <typename Number>
void pack_tile_row(std::uint16_t* tiles, const Number* x, std::int64_t depths) {
  std::int64_t d = 0;
  for (; d + kTileDepths <= depths; d += kTileDepths, tiles += kTileNumbers) {
    put_sixteen(tiles, sixteen(x + d, 16));
    put_sixteen(tiles + 16, sixteen(x + d + 16, 16));
  }
  if (d == depths) return;
  put_sixteen(tiles, sixteen(x + d, depths - d));
  put_sixteen(tiles + 16, depths - d > 16 ? sixteen(x + d + 16, depths - d - 16) : _mm256_setzero_si256());
}
inline void clear_tile_row(std::uint16_t* tiles, std::int64_t depths) {
  for (std::int64_t d = 0; d < depths; d += kTileDepths, tiles += kTileNumbers) {
    put_sixteen(tiles, _mm256_setzero_si256());
    put_sixteen(tiles + 16, _mm256_setzero_si256());
  }
}
// 16 rows, of which `rows` exist.
template <typename Number>
void pack_tile_rows(std::uint16_t* tiles, const Number* x, std::int64_t stride, std::int64_t rows,
                    std::int64_t depths) {
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    r < rows ? pack_tile_row(tiles + r * kTileDepths, x + r * stride, depths)
             : clear_tile_row(tiles + r * kTileDepths, depths);
  }
}

// One tile of pairs from a matrix whose depths lie `stride` apart: 16 pairs of depths of 16 columns.
template <typename Number>
[[gnu::always_inline]] inline void pack_pairs_tile(std::uint16_t* tile, const Number* x, std::int64_t stride,
                                                   std::int64_t depths, std::int64_t cols) {
  for (std::int64_t d = 0; d < kTileDepths; d += 2, tile += kTileDepths) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i even = d < depths ? sixteen(x + d * stride, cols) : zero;
    const __m256i odd = d + 1 < depths ? sixteen(x + (d + 1) * stride, cols) : zero;
    const __m256i low = _mm256_unpacklo_epi16(even, odd), high = _mm256_unpackhi_epi16(even, odd);
    put_sixteen(tile, _mm256_permute2x128_si256(low, high, 0x20));
    put_sixteen(tile + 16, _mm256_permute2x128_si256(low, high, 0x31));
  }
}
template <bool kTransposed, typename Number>
void pack_pairs_tiles(std::uint16_t* tiles, const Number* x, std::int64_t stride, std::int64_t depths,
                      std::int64_t cols) {
  alignas(64) std::uint16_t tile[kTileNumbers];
  for (std::int64_t d = 0; d < depths; d += kTileDepths, tiles += kTileNumbers) {
    std::uint16_t* const out = kTransposed ? tile : tiles;
    if (depths - d >= kTileDepths && cols >= kTileRows) {
      pack_pairs_tile(out, x + d * stride, stride, kTileDepths, kTileRows);
    } else {
      pack_pairs_tile(out, x + d * stride, stride, depths - d, cols);
    }
    if (kTransposed) transpose_tile(tiles, tile);
  }
}

// Of 16 columns of B whose depths lie side by side.
template <typename Number>
void pack_tile_columns(std::uint16_t* tiles, const Number* x, std::int64_t stride, std::int64_t cols,
                       std::int64_t depths) {
  alignas(64) std::uint16_t tile[kTileNumbers];
  for (std::int64_t d = 0; d < depths; d += kTileDepths, tiles += kTileNumbers) {
    pack_tile_rows(tile, x + d, stride, cols, least(kTileDepths, depths - d));
    transpose_tile(tiles, tile);
  }
}

// What is needed next of memory: `count` pieces of one or two lines for each tile of depths.
struct AmxAhead {
  const char* at = nullptr;
  std::int64_t step = 0, tile_step = 0;  // bytes from one to the next, and to those of the next tile
  std::int64_t count = 0;
  bool has_two_lines = false;
};

// The sums of at most 32 x 32 numbers over a chunk.
struct AmxBlock {
  Elements c;
  std::int64_t ldc, rows, cols;
  const std::uint16_t *a, *b;            // tiles
  std::int64_t tiles, a_pitch, b_pitch;  // of depths; numbers from 16 rows, or columns, to the next
  const float* start;                    // null: 0
  std::int64_t start_row;                // 0: the same for each row
  AmxAhead ahead;
};

// A tile is one of a few registers that an instruction names.
#define BASCULE_MULTIPLY_TILES(two_rows, two_cols)         \
  for (std::int64_t k = 0; k < x.tiles; ++k) {             \
    const std::uint16_t* const a = x.a + k * kTileNumbers; \
    const std::uint16_t* const b = x.b + k * kTileNumbers; \
    prefetch_ahead(x.ahead, k);                            \
    _tile_loadd(4, a, 64);                                 \
    _tile_loadd(6, b, 64);                                 \
    _tile_dpbf16ps(0, 4, 6);                               \
    if (two_cols) {                                        \
      _tile_loadd(7, b + x.b_pitch, 64);                   \
      _tile_dpbf16ps(1, 4, 7);                             \
    }                                                      \
    if (two_rows) {                                        \
      _tile_loadd(5, a + x.a_pitch, 64);                   \
      _tile_dpbf16ps(2, 5, 6);                             \
      if (two_cols) _tile_dpbf16ps(3, 5, 7);               \
    }                                                      \
  }

[[gnu::always_inline]] inline void prefetch_ahead(const AmxAhead& ahead, std::int64_t tile) {
  const char* line = ahead.at + tile * ahead.tile_step;
  for (std::int64_t i = 0; i < ahead.count; ++i, line += ahead.step) {
    __builtin_prefetch(line, 0, 2);
    if (ahead.has_two_lines) __builtin_prefetch(line + 64, 0, 2);
  }
}

inline void multiply_tiles(const AmxBlock& x) {
  if (x.rows > kTileRows) {
    if (x.cols > kTileRows) {
      BASCULE_MULTIPLY_TILES(true, true)
    } else {
      BASCULE_MULTIPLY_TILES(true, false)
    }
  } else if (x.cols > kTileRows) {
    BASCULE_MULTIPLY_TILES(false, true)
  } else {
    BASCULE_MULTIPLY_TILES(false, false)
  }
}
#undef BASCULE_MULTIPLY_TILES

// Numbers of a C that does not fill its tiles, or is bf16.
inline void load_ragged(float* sums, const AmxBlock& x) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for_lanes(
        x.cols, [&](auto lanes, std::int64_t col) __attribute__((always_inline)) {
          store(sums + row * kAmxBlock + col, load(x.start + row * x.start_row + col, lanes));
        });
  }
}
inline void store_ragged(const AmxBlock& x, const float* sums) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for_lanes(
        x.cols, [&](auto lanes, std::int64_t col) __attribute__((always_inline)) {
          store(x.c, row * x.ldc + col, lanes, load(sums + row * kAmxBlock + col));
        });
  }
}

// The compiler does not know that tiles are loaded from memory and stored there.
inline void see_memory() { asm volatile("" : : : "memory"); }

[[gnu::noinline]] void multiply_amx_block(const AmxBlock& x) {
  alignas(64) float sums[kAmxBlock * kAmxBlock];
  const bool is_whole = x.rows == kAmxBlock && x.cols == kAmxBlock;
  const std::int64_t c_bytes = x.c.is_bf16() ? sizeof(std::uint16_t) : sizeof(float);
  const char* line = static_cast<const char*>(x.c.data);
  for (std::int64_t row = 0; row < x.rows; ++row, line += x.ldc * c_bytes) {
    __builtin_prefetch(line, 1);
    __builtin_prefetch(line + 16 * c_bytes, 1);
  }
  const float* start = x.start;
  std::int64_t start_row = x.start_row;
  if (start != nullptr && !is_whole) {
    load_ragged(sums, x);
    start = sums;
    start_row = kAmxBlock;
  }
  see_memory();
  if (start == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    const std::int64_t bytes = start_row * 4;
    _tile_loadd(0, start, bytes);
    _tile_loadd(1, start + 16, bytes);
    _tile_loadd(2, start + 16 * start_row, bytes);
    _tile_loadd(3, start + 16 * start_row + 16, bytes);
  }
  multiply_tiles(x);
  const bool is_in_place = is_whole && !x.c.is_bf16();
  float* const c = is_in_place ? x.c.float32() : sums;
  const std::int64_t row = is_in_place ? x.ldc : kAmxBlock;
  _tile_stored(0, c, row * 4);
  _tile_stored(1, c + 16, row * 4);
  _tile_stored(2, c + 16 * row, row * 4);
  _tile_stored(3, c + 16 * row + 16, row * 4);
  see_memory();
  if (!is_in_place) store_ragged(x, sums);
}

// A product of packed parts. Rows lie `ldc` apart in C within groups of `group` rows, which lie `group_step` apart.
struct AmxProduct {
  Elements c;
  std::int64_t ldc, group, group_step;
  std::int64_t rows, cols, depth;
  const float* bias;
  bool accumulate;
  void* room;
  std::int64_t room_bytes;
  const std::uint16_t* packed_b = nullptr;  // for each 16 columns the tiles of all depths; null: pack_b() is called
};

// How the room is shared: `chunk` depths of a strip of columns, `piece` of 32 rows.
struct AmxCut {
  std::int64_t chunk, piece, strip;
};
// Nearly equal parts of `count`, at most `most` each, multiples of a tile's depths.
inline std::int64_t even_part(std::int64_t count, std::int64_t most) {
  const std::int64_t parts = (count + most - 1) / most;
  return rounded_up((count + parts - 1) / parts, kTileDepths);
}
inline AmxCut cut_of(const AmxProduct& p) {
  const std::int64_t depth = rounded_up(p.depth, kTileDepths);
  const std::int64_t chunk = p.c.is_bf16() ? depth : even_part(depth, kLongestAmxChunk);
  const std::int64_t piece = p.c.is_bf16() ? depth : even_part(chunk, kLongestAmxPiece);
  const std::int64_t room = p.room_bytes / 2 - kAmxBlock * piece;
  return {chunk, piece, least(room / chunk / kAmxBlock * kAmxBlock, rounded_up(p.cols, kAmxBlock))};
}

// pack_a(tiles, row, rows, first, depths): 16 rows; pack_b(tiles, col, cols, first, depths): 16 columns. ahead(row,
// part, parts, first, depths): a part of what pack_a() reads of the 32 rows from `row` on.
template <typename PackA, typename PackB, typename Ahead>
void multiply_by_tiles(const AmxProduct& p, const PackA& pack_a, const PackB& pack_b, const Ahead& ahead) {
  const AmxCut cut = cut_of(p);
  std::uint16_t* const a = static_cast<std::uint16_t*>(p.room);
  std::uint16_t* const b = a + kAmxBlock * cut.piece;
  const TilesInUse tiles;
  AmxBlock x{};
  x.a = a;
  x.ldc = p.ldc;
  for (std::int64_t strip = 0; strip < p.cols; strip += cut.strip) {
    const std::int64_t cols = least(cut.strip, p.cols - strip), blocks = (cols + kAmxBlock - 1) / kAmxBlock;
    for (std::int64_t chunk = 0; chunk < p.depth; chunk += cut.chunk) {
      const std::int64_t end = least(chunk + cut.chunk, p.depth);
      x.b_pitch = (p.packed_b != nullptr ? p.depth : rounded_up(end - chunk, kTileDepths)) * kTileRows;
      for (std::int64_t col = 0; col < cols && p.packed_b == nullptr; col += kTileRows)
        pack_b(b + col / kTileRows * x.b_pitch, strip + col, least(kTileRows, cols - col), chunk, end - chunk);
      for (std::int64_t row = 0; row < p.rows; row += x.rows) {
        x.rows = least(least(kAmxBlock, p.rows - row), p.group - row % p.group);
        for (std::int64_t first = chunk; first < end; first += cut.piece) {
          const std::int64_t depths = least(cut.piece, end - first), next = first + cut.piece;
          const bool is_added = first > 0 || p.accumulate;
          x.tiles = (depths + kTileDepths - 1) / kTileDepths;
          x.a_pitch = x.tiles * kTileNumbers;
          pack_a(a, row, least(kTileRows, x.rows), first, depths);
          if (x.rows > kTileRows) pack_a(a + x.a_pitch, row + kTileRows, x.rows - kTileRows, first, depths);
          for (std::int64_t i = 0; i < blocks; ++i) {
            const std::int64_t col = strip + i * kAmxBlock;
            x.cols = least(kAmxBlock, strip + cols - col);
            x.b = p.packed_b != nullptr ? p.packed_b + col * p.depth + first * kTileRows
                                        : b + 2 * i * x.b_pitch + (first - chunk) * kTileRows;
            x.c = p.c + (row / p.group * p.group_step + row % p.group * p.ldc + col);
            x.start = is_added ? x.c.float32() : p.bias != nullptr ? p.bias + col : nullptr;
            x.start_row = is_added ? p.ldc : 0;
            x.ahead = {};
            if (next < end) {
              if (x.rows == kAmxBlock) x.ahead = ahead(row, i, blocks, next, least(cut.piece, end - next));
            } else if (row + 2 * kAmxBlock <= p.rows) {
              x.ahead = ahead(row + kAmxBlock, i, blocks, chunk, least(cut.piece, end - chunk));
            }
            multiply_amx_block(x);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
