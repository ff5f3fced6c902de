// SPDX-License-Identifier: Apache-2.0
// One AdamW update over a span of parameters. Source: Loshchilov & Hutter 2019; torch.optim.AdamW:
//   g = gradient * gradient_scale;   p *= 1 - learning_rate * weight_decay
//   m = m + (g - m) (1 - beta1);   v = beta2 v + (1 - beta2) g g
//   p -= step_size * m / (sqrt(v) * inverse_sqrt_correction2 + epsilon)
// with step_size = learning_rate / (1 - beta1^t) and inverse_sqrt_correction2 = 1 / sqrt(1 - beta2^t), made by the
// caller in float64.
// Shapes: all (count), dense, any alignment. Aliasing: none. Overwrites parameter, exp_avg, exp_avg_sq.
#pragma once

#include <cstdint>

namespace bascule {

struct AdamW {
  float* parameter;
  float* exp_avg;
  float* exp_avg_sq;
  const float* gradient;
  std::int64_t count;
  float gradient_scale;
  float decay;  // 1 - learning_rate * weight_decay; 1: none
  float one_minus_beta1, beta2, one_minus_beta2;
  float step_size, inverse_sqrt_correction2, epsilon;
};

}  // namespace bascule
