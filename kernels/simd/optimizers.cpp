// SPDX-License-Identifier: Apache-2.0
// AdamW: one pass over four streams.
#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {

void adamw(const AdamW& a) {
  const f32x16 gradient_scale = set(a.gradient_scale);
  const f32x16 decay = set(a.decay);
  const f32x16 one_minus_beta1 = set(a.one_minus_beta1);
  const f32x16 beta2 = set(a.beta2);
  const f32x16 one_minus_beta2 = set(a.one_minus_beta2);
  const f32x16 step_size = set(a.step_size);
  const f32x16 correction = set(a.inverse_sqrt_correction2);
  const f32x16 epsilon = set(a.epsilon);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 g = load(a.gradient + i, lanes) * gradient_scale;
        const f32x16 m_before = load(a.exp_avg + i, lanes);
        const f32x16 m = fma(g - m_before, one_minus_beta1, m_before);
        const f32x16 v = fma(g * g, one_minus_beta2, beta2 * load(a.exp_avg_sq + i, lanes));
        const f32x16 denominator = fma(sqrt(v), correction, epsilon);
        const f32x16 p = load(a.parameter + i, lanes) * decay;
        store(a.exp_avg + i, lanes, m);
        store(a.exp_avg_sq + i, lanes, v);
        store(a.parameter + i, lanes, fnma(step_size, m / denominator, p));
      });
}

// LAMB: a pass over four streams for the directions, and one over two for the step.

void lamb_direction(const LambDirection& a) {
  const f32x16 gradient_scale = set(a.gradient_scale);
  const f32x16 weight_decay = set(a.weight_decay);
  const f32x16 one_minus_beta1 = set(a.one_minus_beta1);
  const f32x16 beta2 = set(a.beta2);
  const f32x16 one_minus_beta2 = set(a.one_minus_beta2);
  const f32x16 correction1 = set(a.inverse_correction1);
  const f32x16 correction2 = set(a.inverse_sqrt_correction2);
  const f32x16 epsilon = set(a.epsilon);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 g = load(a.gradient + i, lanes) * gradient_scale;
        const f32x16 m_before = load(a.exp_avg + i, lanes);
        const f32x16 m = fma(g - m_before, one_minus_beta1, m_before);
        const f32x16 v = fma(g * g, one_minus_beta2, beta2 * load(a.exp_avg_sq + i, lanes));
        const f32x16 adam = m * correction1 / fma(sqrt(v), correction2, epsilon);
        store(a.exp_avg + i, lanes, m);
        store(a.exp_avg_sq + i, lanes, v);
        store(a.gradient + i, lanes, fma(weight_decay, load(a.parameter + i, lanes), adam));
      });
}

void lamb_step(const LambStep& a) {
  const f32x16 step_size = set(a.step_size);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        store(a.parameter + i, lanes, fnma(step_size, load(a.direction + i, lanes), load(a.parameter + i, lanes)));
      });
}

// Adafactor. A block of rows is small enough to stay in the caches between its passes; column sums stay in the first.

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

// Moving averages: a pass over two streams.

void average(const Average& a) {
  const f32x16 share = set(a.share);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 before = load(a.average + i, lanes);
        store(a.average + i, lanes, fma(load(a.value + i, lanes) - before, share, before));
      });
}

}  // namespace bascule::BASCULE_ISA
