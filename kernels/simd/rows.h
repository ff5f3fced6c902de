// SPDX-License-Identifier: Apache-2.0
// Operations on one row of floats that several kernels share.
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

inline void fill_row(float* out, std::int64_t count, float value) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) { store(out + c, lanes, set(value)); });
}

// out = x, or out += x.
template <typename Number>
void copy_row(Number* out, const float* x, std::int64_t count) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c)
                 __attribute__((always_inline)) { store(out + c, lanes, load(x + c, lanes)); });
}
// The first `count` elements of x, and zeros behind them up to a whole vector.
inline void copy_run(float* out, ConstElements x, std::int64_t count) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) { store(out + c, load(x, c, lanes)); });
}
template <typename Number>
void add_to_row(float* out, const Number* x, std::int64_t count) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c)
                 __attribute__((always_inline)) { store(out + c, lanes, load(out + c, lanes) + load(x + c, lanes)); });
}
// out = factor out + x
inline void scale_and_add_to_row(float* out, float factor, const float* x, std::int64_t count) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
        store(out + c, lanes, fma(set(factor), load(out + c, lanes), load(x + c, lanes)));
      });
}

// out[c] += x[0,c] + x[1,c] + ...: four rows are added to each other first. So `out` is read and written a quarter as
// often, and a long sum has a quarter of its additions.
template <typename Number>
void add_rows(float* out, const Number* x, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const Number* const x0 = x + r * stride;
    const Number* const x1 = x0 + stride;
    const Number* const x2 = x1 + stride;
    const Number* const x3 = x2 + stride;
    for_lanes(
        cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const f32x16 low = load(x0 + c, lanes) + load(x1 + c, lanes),
                       high = load(x2 + c, lanes) + load(x3 + c, lanes);
          store(out + c, lanes, load(out + c, lanes) + (low + high));
        });
  }
  for (; r < rows; ++r) add_to_row(out, x + r * stride, cols);
}

// The largest of `count` numbers, -infinity of none. Four at a time: each comparison would otherwise wait for the one
// before it.
inline float largest(const float* x, std::int64_t count) {
  const float lowest = -__builtin_inff();
  f32x16 a = set(lowest), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    a = max(a, load(x + i));
    b = max(b, load(x + i + kLanes));
    c = max(c, load(x + i + 2 * kLanes));
    d = max(d, load(x + i + 3 * kLanes));
  }
  for_lanes(
      count - i, [&](auto lanes, std::int64_t rest)
                     __attribute__((always_inline)) { a = max(a, load(x + i + rest, lanes, lowest)); });
  return horizontal_max(max(max(a, b), max(c, d)));
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
