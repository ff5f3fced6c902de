// SPDX-License-Identifier: Apache-2.0
// The innermost block of a matrix product: as many sums as the registers hold, over one chunk of depths, added to C.
// Each sum is a chain of its own (gemm_tile.h), so the extents of a block do not show in the bits.
//
// A step multiplies a number of A with a row of B: float32 numbers, or the bits of pairs of bf16 numbers. Where a pair
// is multiplied by two fused multiply-adds instead of the instruction, it is two steps, of its odd and its even
// numbers.
#pragma once

#include <cstdint>

#include "kernels/gemm_tile.h"
#include "kernels/lanes/lanes.h"
#include "kernels/lanes/lanes_bf16.h"

namespace bascule::BASCULE_ISA {
namespace {

// The rows and vectors of a block, whose sums stay in registers: 28 of 32, or those of kRowsInRegisters. B is read from
// the second-level cache: the wider the rows of A, the less often.
#if defined(__AVX512F__) && !defined(BASCULE_SCALAR_LANES)
constexpr int kBlockRows = 14;
constexpr int kBlockVectors = 2;
constexpr std::int64_t kPrefetchSteps = 8;
#else
constexpr int kBlockRows = kRowsInRegisters;
constexpr int kBlockVectors = 1;
constexpr std::int64_t kPrefetchSteps = 0;  // prefetching slows AVX2 down
#endif
constexpr std::int64_t kBlockCols = kBlockVectors * kLanes;

struct Float32Steps {
  static constexpr bool kPairs = false;     // whether numbers are taken in pairs
  static constexpr bool kIsPacked = false;  // whether a pair is one number
  static constexpr std::int64_t kChunk = kGemmChunk;
  static constexpr std::int64_t kDepths = 1;  // steps are made for a multiple of so many, with zeros at the end
  static f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 sum) { return fma(a, b, sum); }
  static f32x16 add(f32x16 c, f32x16 sum) { return c + sum; }
};
struct Bf16Steps {
  static constexpr bool kPairs = true;
  static constexpr std::int64_t kChunk = kGemmChunkBf16;
  static constexpr std::int64_t kDepths = 2;
  // store_steps: the step of a pair, or its two steps, `pitch` apart.
#if defined(__AVX512BF16__) && !defined(BASCULE_SCALAR_LANES)
  static constexpr bool kIsPacked = true;
  static f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 sum) { return dot_pairs(a, b, sum); }
  static void store_steps(float* steps, std::int64_t, f32x16 even, f32x16 odd) { store(steps, pairs_of(even, odd)); }
#else
  static constexpr bool kIsPacked = false;
  static f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 sum) { return fma_flushed(a, b, sum); }
  static void store_steps(float* steps, std::int64_t pitch, f32x16 even, f32x16 odd) {
    store(steps, odd);
    store(steps + pitch, even);
  }
#endif
  static f32x16 add(f32x16 c, f32x16 sum) { return add_flushed(c, sum); }
};
// Bf16Law::kTiles, whatever the instructions: a sum adds even and odd numbers of a few depths by themselves, so that a
// step is of one number. The chunk, for which operands are packed, does not show.
struct TileSteps {
  static constexpr bool kPairs = true;
  static constexpr bool kIsPacked = false;
  static constexpr std::int64_t kChunk = kGemmChunkBf16;
  static constexpr std::int64_t kDepths = kTileDepths;
  static f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 sum) { return fma_flushed(a, b, sum); }
  static void store_steps(float* steps, std::int64_t pitch, f32x16 even, f32x16 odd) {
    store(steps, odd);
    store(steps + pitch, even);
  }
  static f32x16 add(f32x16 c, f32x16 sum) { return add_flushed(c, sum); }
};
// Steps for so many depths: one each, or one or two for each pair.
template <typename Steps>
constexpr std::int64_t steps_of(std::int64_t depths) {
  const std::int64_t whole = (depths + Steps::kDepths - 1) / Steps::kDepths * Steps::kDepths;
  return Steps::kIsPacked ? whole / 2 : whole;
}
template <typename Steps>
constexpr std::int64_t kPairSteps = Steps::kIsPacked ? 1 : 2;
template <typename Steps>
constexpr std::int64_t kChunkSteps = steps_of<Steps>(Steps::kChunk);
// From one row of A to the next. Not a multiple of 4096 bytes: the rows would fall on the same lines of the first
// cache.
template <typename Steps>
constexpr std::int64_t kRowPitch = kChunkSteps<Steps> + 16;

// How A lies: a row's numbers follow one another, rows kRowPitch apart; or those of all rows for one step do.
enum class LayoutA { kRows, kSteps };

struct GemmBlock {
  Elements c;
  std::int64_t ldc;
  const float* a;
  std::int64_t a_step;  // from a step to the next where A lies by steps
  const float* b;       // (steps, kBlockCols)
  std::int64_t b_step;
  std::int64_t steps;
  const float* start;  // what the sums are added to: C, the sums of the chunks before, the bias, or null
  std::int64_t start_row;
  std::int64_t cols;  // of C from here on
};

// Writes C, whose numbers begin at c: what it starts with plus the sums of this chunk, (rows, kBlockCols).
template <typename Steps, typename Number>
[[gnu::always_inline]] inline void add_rows(const GemmBlock& x, Number* c, const float* sums, int rows) {
  const auto add = [&](int row, std::int64_t col, auto lanes) __attribute__((always_inline)) {
    f32x16 sum = load(sums + row * kBlockCols + col);
    if (x.start != nullptr) sum = Steps::add(load(x.start + row * x.start_row + col, lanes), sum);
    store(c + row * x.ldc + col, lanes, sum);
  };
  if (x.cols >= kBlockCols) {
    for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 8
      for (int v = 0; v < kBlockVectors; ++v) add(row, v * kLanes, AllLanes{});
    }
    return;
  }
  for (int row = 0; row < rows; ++row)
    for_lanes(
        x.cols, [&](auto lanes, std::int64_t col) __attribute__((always_inline)) { add(row, col, lanes); });
}
// A function of its own: within multiply_block(), where each sum has its own instructions, its code would be twenty
// times that of the product.
template <typename Steps>
[[gnu::noinline]] void add_to_c(const GemmBlock& x, const float* sums, int rows) {
  x.c.is_bf16() ? add_rows<Steps>(x, x.c.bf16(), sums, rows) : add_rows<Steps>(x, x.c.float32(), sums, rows);
}

// c holds what the sums of a block are added to, (rows, kBlockCols).
template <typename Steps>
[[gnu::noinline]] void load_start(float* c, const GemmBlock& x, int rows) {
  for (int row = 0; row < rows; ++row, c += kBlockCols) {
    if (x.start == nullptr) {
      for (std::int64_t col = 0; col < kBlockCols; col += kLanes) store(c + col, set(0.0f));
    } else {
      for_lanes(
          x.cols < kBlockCols ? x.cols : kBlockCols, [&](auto lanes, std::int64_t col) __attribute__((always_inline)) {
            store(c + col, load(x.start + row * x.start_row + col, lanes));
          });
    }
  }
}

// The sums of Bf16Law::kTiles of a few depths: the chain of the odd numbers, and that of the even ones, whose sum is
// added to c, (kRows, kBlockCols). B is prefetched by so many steps.
template <LayoutA kLayoutA, int kRows, std::int64_t kPrefetched>
[[gnu::always_inline]] inline void add_chains(float* c, const float* a, const float* b, std::int64_t a_step,
                                              std::int64_t b_step) {
  using Steps = TileSteps;
  f32x16 sum[2][kRows][kBlockVectors];  // odd, even
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) sum[0][i][v] = sum[1][i][v] = set(0.0f);
  }
  for (int pair = 0; pair < kTileDepths / 2; ++pair) {
#pragma GCC unroll 2
    for (int parity = 0; parity < 2; ++parity) {
      if (kPrefetched > 0) {
#pragma GCC unroll 8
        for (int v = 0; v < kBlockVectors; ++v) __builtin_prefetch(b + kPrefetched * b_step + v * kLanes);
      }
      f32x16 row[kBlockVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kBlockVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const f32x16 number = set(kLayoutA == LayoutA::kRows ? a[i * kRowPitch<Steps>] : a[i]);
#pragma GCC unroll 8
        for (int v = 0; v < kBlockVectors; ++v)
          sum[parity][i][v] = Steps::multiply_add(number, row[v], sum[parity][i][v]);
      }
      a += kLayoutA == LayoutA::kRows ? 1 : a_step;
      b += b_step;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) {
      float* const at = c + i * kBlockCols + v * kLanes;
      store(at, Steps::add(load(at), Steps::add(sum[1][i][v], sum[0][i][v])));
    }
  }
}

// The block of Bf16Law::kTiles. Registers hold two chains of half its rows.
template <LayoutA kLayoutA, int kRows>
[[gnu::noinline]] void multiply_chains(const GemmBlock& x) {
  using Steps = TileSteps;
  constexpr int kUpper = kRows / 2, kLower = kRows - kUpper;
  alignas(64) float c[kRows * kBlockCols];
  load_start<Steps>(c, x, kRows);
  const float* b = x.b;
  for (std::int64_t first = 0; first < x.steps; first += kTileDepths, b += kTileDepths * x.b_step) {
    const float* const a = x.a + first * (kLayoutA == LayoutA::kRows ? 1 : x.a_step);
    add_chains<kLayoutA, kLower, kPrefetchSteps>(c, a, b, x.a_step, x.b_step);
    if constexpr (kUpper > 0)
      add_chains<kLayoutA, kUpper, 0>(c + kLower * kBlockCols,
                                      a + kLower * (kLayoutA == LayoutA::kRows ? kRowPitch<Steps> : 1), b, x.a_step,
                                      x.b_step);
  }
  GemmBlock sums = x;
  sums.start = nullptr;
  add_to_c<Steps>(sums, c, kRows);
}

template <typename Steps, LayoutA kLayoutA, int kRows>
[[gnu::noinline]] void multiply_block(const GemmBlock& x) {
  const char* c = static_cast<const char*>(x.c.data);
  const std::int64_t c_bytes = x.c.is_bf16() ? sizeof(std::uint16_t) : sizeof(float);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i, c += x.ldc * c_bytes) {
    __builtin_prefetch(c, 1);
    if (kBlockVectors > 1) __builtin_prefetch(c + kLanes * c_bytes, 1);
  }
  f32x16 sum[kRows][kBlockVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) sum[i][v] = set(0.0f);
  }
  const float* a = x.a;
  const float* b = x.b;
  for (std::int64_t step = 0; step < x.steps; ++step) {
    if (kPrefetchSteps > 0) {
#pragma GCC unroll 8
      for (int v = 0; v < kBlockVectors; ++v) __builtin_prefetch(b + kPrefetchSteps * x.b_step + v * kLanes);
    }
    f32x16 row[kBlockVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const f32x16 number = set(kLayoutA == LayoutA::kRows ? a[i * kRowPitch<Steps>] : a[i]);
#pragma GCC unroll 8
      for (int v = 0; v < kBlockVectors; ++v) sum[i][v] = Steps::multiply_add(number, row[v], sum[i][v]);
    }
    a += kLayoutA == LayoutA::kRows ? 1 : x.a_step;
    b += x.b_step;
  }
  alignas(64) float sums[kRows * kBlockCols];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) store(sums + i * kBlockCols + v * kLanes, sum[i][v]);
  }
  add_to_c<Steps>(x, sums, kRows);
}

// The block of exactly so many rows, at most kRows.
template <typename Steps, LayoutA kLayoutA, int kRows = kBlockRows>
void multiply_block_of(const GemmBlock& x, std::int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_block_of<Steps, kLayoutA, kRows - 1>(x, rows);
  }
  if constexpr (Steps::kDepths > 2) return multiply_chains<kLayoutA, kRows>(x);
  multiply_block<Steps, kLayoutA, kRows>(x);
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
