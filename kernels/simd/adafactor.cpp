// SPDX-License-Identifier: Apache-2.0
// Adafactor. A block of rows is small enough to stay in the caches between its passes; column sums stay in the first.
#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {

void adafactor_squares(const AdafactorSquares& a) {
  const f32x16 gradient_scale = set(a.gradient_scale);
  const f32x16 zero = set(0.0f);
  for_lanes(
      a.cols, [&](auto lanes, std::int64_t c)
                  __attribute__((always_inline)) { store(a.column_sums + c, lanes, zero); });
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const gradient = a.gradient + r * a.cols;
    const float sum = sum_over_lanes(
        a.cols, [&](auto lanes, std::int64_t c, f32x16 squares) __attribute__((always_inline)) {
          const f32x16 g = load(gradient + c, lanes) * gradient_scale;
          store(a.column_sums + c, lanes, fma(g, g, load(a.column_sums + c, lanes)));
          return fma(g, g, squares);
        });
    const float mean = sum / static_cast<float>(a.cols) + kAdafactorFloor;
    a.row[r] = first_lane(fma(set(mean), set(a.one_minus_beta), set(a.beta * a.row[r])));
  }
}

void adafactor_direction(const AdafactorDirection& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    float* const gradient = a.gradient + r * a.cols;
    const f32x16 factor = set(a.gradient_scale / square_root(a.row[r] / a.mean_row));
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(gradient + c, lanes, load(gradient + c, lanes) * factor * load(a.column_factors + c, lanes));
        });
  }
}

void adafactor_vector(const AdafactorVector& a) {
  const f32x16 gradient_scale = set(a.gradient_scale);
  const f32x16 beta = set(a.beta);
  const f32x16 one_minus_beta = set(a.one_minus_beta);
  const f32x16 floor = set(kAdafactorFloor);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 g = load(a.gradient + i, lanes) * gradient_scale;
        const f32x16 v = fma(fma(g, g, floor), one_minus_beta, beta * load(a.exp_avg_sq + i, lanes));
        store(a.exp_avg_sq + i, lanes, v);
        store(a.gradient + i, lanes, g / sqrt(v));
      });
}

void adafactor_step(const AdafactorStep& a) {
  const f32x16 decay = set(a.decay);
  const f32x16 step_size = set(a.step_size);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 p = load(a.parameter + i, lanes) * decay;
        store(a.parameter + i, lanes, fnma(step_size, load(a.direction + i, lanes), p));
      });
}

}  // namespace bascule::BASCULE_ISA
