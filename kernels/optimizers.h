// SPDX-License-Identifier: Apache-2.0
// Updates of parameters: AdamW, LAMB, Adafactor, and the average of the weights.
#pragma once

#include <cstdint>

namespace bascule {

// One AdamW update over a span of parameters. Source: Loshchilov & Hutter 2019; torch.optim.AdamW:
//   g = gradient * gradient_scale;   p *= 1 - learning_rate * weight_decay
//   m = m + (g - m) (1 - beta1);   v = beta2 v + (1 - beta2) g g
//   p -= step_size * m / (sqrt(v) * inverse_sqrt_correction2 + epsilon)
// with step_size = learning_rate / (1 - beta1^t) and inverse_sqrt_correction2 = 1 / sqrt(1 - beta2^t), made by the
// caller in float64.
// Shapes: all (count), dense, any alignment. Aliasing: none. Overwrites parameter, exp_avg, exp_avg_sq.

struct AdamW {
  float *parameter, *exp_avg, *exp_avg_sq;
  const float* gradient;
  std::int64_t count;
  float gradient_scale;
  float decay;  // 1 - learning_rate * weight_decay; 1: none
  float one_minus_beta1, beta2, one_minus_beta2;
  float step_size, inverse_sqrt_correction2, epsilon;
};

// One LAMB update in two passes, between which the norms of a whole tensor's parameters and directions are measured.
// Source: You et al. 2020, algorithm 2; NVIDIA's FusedLAMB:
//   g = gradient * gradient_scale
//   m = m + (g - m) (1 - beta1);   v = beta2 v + (1 - beta2) g g
//   u = m * inverse_correction1 / (sqrt(v) * inverse_sqrt_correction2 + epsilon) + weight_decay * p      LambDirection
//   p -= step_size * u                                                                                    LambStep
// with inverse_correction1 = 1 / (1 - beta1^t), inverse_sqrt_correction2 = 1 / sqrt(1 - beta2^t), and step_size =
// learning_rate * |p| / |u| of the tensor, made by the caller in float64.
// Shapes: all (count), dense, any alignment. Aliasing: none.

// Overwrites exp_avg, exp_avg_sq, and the gradient, with u.
struct LambDirection {
  const float* parameter;
  float *exp_avg, *exp_avg_sq, *gradient;
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

// The passes of Adafactor over the memory of a tensor. Source: Shazeer & Stern 2018, algorithms 4 and 5, as
// Transformers' Adafactor computes them without relative steps and parameter scales. With g = gradient *
// gradient_scale and u = g g + 1e-30, for an R x C matrix:
//   row_r = beta row_r + (1 - beta) mean_c u                                            AdafactorSquares
//   col_c = beta col_c + (1 - beta) mean_r u                                            by the caller, of column sums
//   direction = g / sqrt(row_r / mean_r row) / sqrt(col_c)                              AdafactorDirection
// For a vector:
//   v = beta v + (1 - beta) u;   direction = g / sqrt(v)                                AdafactorVector
// and then, with step_size = learning_rate / max(1, rms(direction) / clip) of the whole tensor, made by the caller:
//   p = p decay - step_size direction                                                   AdafactorStep
// Shapes: dense rows, any alignment. Aliasing: none. Sums of a row: in lanes and their tree (lanes.h); sums of a
// column: row by row, from the first.

inline constexpr float kAdafactorFloor = 1e-30f;

// Reads whole rows. Writes row (rows), and over column_sums (cols) the sums of g g.
struct AdafactorSquares {
  const float* gradient;  // (rows, cols)
  float *row, *column_sums;
  std::int64_t rows, cols;
  float gradient_scale, beta, one_minus_beta;
};

// Overwrites the gradient with the direction. column_factors: 1 / sqrt(col_c).
struct AdafactorDirection {
  float* gradient;              // (rows, cols)
  const float* row;             // (rows)
  const float* column_factors;  // (cols)
  std::int64_t rows, cols;
  float gradient_scale, mean_row;
};

// Overwrites exp_avg_sq, and the gradient with the direction; both (count).
struct AdafactorVector {
  float *gradient, *exp_avg_sq;
  std::int64_t count;
  float gradient_scale, beta, one_minus_beta;
};

struct AdafactorStep {
  float* parameter;
  const float* direction;
  std::int64_t count;
  float decay, step_size;
};

// A step of an exponential moving average:
//   average += share * (value - average)
// Source: PyCls' update_model_ema, with alpha = share.
// Shapes: all (count), dense, any alignment. Aliasing: none.

// Overwrites average.
struct Average {
  float* average;
  const float* value;
  std::int64_t count;
  float share;
};

}  // namespace bascule
