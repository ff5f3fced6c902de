// SPDX-License-Identifier: Apache-2.0
// Matrix products of operands that fit the caches: C (rows, 16 vectors) = or += A (rows, steps) B (steps, 16 vectors).
// Every element of C is one chain of fma over the steps in order, from 0 or from C, so that neither the ISA nor the
// blocking shows in its bits. B and C are packed: whole vectors, which may hold more columns than are needed.
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

// The element of A in row i at step s lies at i * a_row + s * a_step.
struct SmallProduct {
  float* c;
  std::int64_t c_row;
  const float* a;
  std::int64_t a_row, a_step;
  const float* b;
  std::int64_t b_row;
  std::int64_t steps;
  bool accumulate;
};

// As many sums as the registers hold beside a row of B and an element of A: 24 of 32, or 6 pairs of 16. The rows are
// the same for every ISA: causal attention chooses the steps of a block, and those that a row does not see multiply
// zeros with numbers that may be infinite.
constexpr int kBlockRows = 6;
#if defined(__AVX512F__)
constexpr int kBlockVectors = 4;
#else
constexpr int kBlockVectors = 1;
#endif

template <int kRows, int kVectors>
[[gnu::noinline]] void multiply_block(const SmallProduct& x) {
  f32x16 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[i][v] = x.accumulate ? load(x.c + i * x.c_row + v * kLanes) : set(0.0f);
  }
  const float* a = x.a;
  const float* b = x.b;
  for (std::int64_t step = 0; step < x.steps; ++step) {
    f32x16 row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const f32x16 element = set(a[i * x.a_row]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] = fma(element, row[v], sum[i][v]);
    }
    a += x.a_step;
    b += x.b_row;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(x.c + i * x.c_row + v * kLanes, sum[i][v]);
  }
}

// The size of parts of `count`, at most `most` each, that are nearly equal.
inline std::int64_t divided(std::int64_t count, std::int64_t most) {
  const std::int64_t parts = (count + most - 1) / most;
  return (count + parts - 1) / parts;
}
// How many vectors each block of a row of so many has. A block of one vector would multiply at half the speed.
inline std::int64_t vectors_of_blocks(std::int64_t vectors) { return divided(vectors, kBlockVectors); }

// The block of exactly these extents, at most kRows x kVectors.
template <int kRows, int kVectors>
void multiply_ragged_block(const SmallProduct& x, std::int64_t rows, std::int64_t vectors) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_ragged_block<kRows - 1, kVectors>(x, rows, vectors);
  }
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return multiply_ragged_block<kRows, kVectors - 1>(x, rows, vectors);
  }
  multiply_block<kRows, kVectors>(x);
}

// Steps from `first` to before `end`.
struct Steps {
  std::int64_t first, end;
};

// Each block of rows of C takes steps_of(its first row, its end row) of the steps.
template <typename StepsOf>
[[gnu::always_inline]] inline void multiply(const SmallProduct& x, std::int64_t rows, std::int64_t vectors,
                                            const StepsOf& steps_of) {
  const std::int64_t together = vectors_of_blocks(vectors);
  for (std::int64_t v = 0; v < vectors; v += together) {
    const std::int64_t these = vectors - v < together ? vectors - v : together;
    for (std::int64_t i = 0; i < rows; i += kBlockRows) {
      const Steps steps = steps_of(i, i + kBlockRows < rows ? i + kBlockRows : rows);
      SmallProduct block = x;
      block.c += i * x.c_row + v * kLanes;
      block.a += i * x.a_row + steps.first * x.a_step;
      block.b += steps.first * x.b_row + v * kLanes;
      block.steps = steps.end - steps.first;
      multiply_ragged_block<kBlockRows, kBlockVectors>(block, rows - i, these);
    }
  }
}

inline void multiply(const SmallProduct& x, std::int64_t rows, std::int64_t vectors) {
  multiply(x, rows, vectors, [&x](std::int64_t, std::int64_t) { return Steps{0, x.steps}; });
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
