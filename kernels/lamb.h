// SPDX-License-Identifier: Apache-2.0
// One LAMB update in two passes, between which the norms of a whole tensor's parameters and directions are measured.
// Source: You et al. 2020, algorithm 2; NVIDIA's FusedLAMB:
//   g = gradient * gradient_scale
//   m = m + (g - m) (1 - beta1);   v = beta2 v + (1 - beta2) g g
//   u = m * inverse_correction1 / (sqrt(v) * inverse_sqrt_correction2 + epsilon) + weight_decay * p      LambDirection
//   p -= step_size * u                                                                                    LambStep
// with inverse_correction1 = 1 / (1 - beta1^t), inverse_sqrt_correction2 = 1 / sqrt(1 - beta2^t), and step_size =
// learning_rate * |p| / |u| of the tensor, made by the caller in float64.
// Shapes: all (count), dense, any alignment. Aliasing: none.
#pragma once

#include <cstdint>

namespace bascule {

// Overwrites exp_avg, exp_avg_sq, and the gradient, with u.
struct LambDirection {
  const float* parameter;
  float* exp_avg;
  float* exp_avg_sq;
  float* gradient;
  std::int64_t count;
  float gradient_scale, weight_decay;
  float one_minus_beta1, beta2, one_minus_beta2;
  float inverse_correction1, inverse_sqrt_correction2, epsilon;
};

struct LambStep {
  float* parameter;
  const float* direction;
  std::int64_t count;
  float step_size;
};

}  // namespace bascule
