// SPDX-License-Identifier: Apache-2.0
// LAMB: a pass over four streams for the directions, and one over two for the step.
#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {

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

}  // namespace bascule::BASCULE_ISA
