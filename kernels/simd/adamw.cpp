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

}  // namespace bascule::BASCULE_ISA
