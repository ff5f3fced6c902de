// SPDX-License-Identifier: Apache-2.0
// Rows of length one, and sums of squares.
#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr float kNormFloor = 1e-12f;

}  // namespace

void normalize_forward(const NormalizeForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const x = a.x + r * a.cols;
    float* const y = a.y + r * a.cols;
    const float squares = sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 sum) __attribute__((always_inline)) {
          const f32x16 v = load(x + c, lanes);
          return fma(v, v, sum);
        });
    const float length = square_root(squares);
    const float norm = length < kNormFloor ? kNormFloor : length;
    a.norm[r] = norm;
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c)
                    __attribute__((always_inline)) { store(y + c, lanes, load(x + c, lanes) / set(norm)); });
  }
}

void normalize_backward(const NormalizeBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const d_y = a.d_y + r * a.cols;
    const float* const y = a.y + r * a.cols;
    float* const d_x = a.d_x + r * a.cols;
    const float dot = sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 sum)
                    __attribute__((always_inline)) { return fma(load(d_y + c, lanes), load(y + c, lanes), sum); });
    // At the floor y is x / 1e-12, a constant factor: nothing is taken off along y.
    const f32x16 along = set(a.norm[r] <= kNormFloor ? 0.0f : dot);
    const f32x16 norm = set(a.norm[r]);
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          f32x16 d = fnma(load(y + c, lanes), along, load(d_y + c, lanes)) / norm;
          if (a.accumulate) d = load(d_x + c, lanes) + d;
          store(d_x + c, lanes, d);
        });
  }
}

void sum_of_squares(const SumOfSquares& a) {
  f64x16 even = set_f64(0.0);
  f64x16 odd = set_f64(0.0);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= a.count; i += 2 * kLanes) {
    const f64x16 x0 = to_f64(load(a.x + i));
    const f64x16 x1 = to_f64(load(a.x + i + kLanes));
    even = fma(x0, x0, even);
    odd = fma(x1, x1, odd);
  }
  for_lanes(
      a.count - i, [&](auto lanes, std::int64_t rest) __attribute__((always_inline)) {
        const f64x16 x = to_f64(load(a.x + i + rest, lanes));
        even = fma(x, x, even);
      });
  *a.out = horizontal_sum(even + odd);
}

}  // namespace bascule::BASCULE_ISA
