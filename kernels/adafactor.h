// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <cstdint>

namespace bascule {

inline constexpr float kAdafactorFloor = 1e-30f;

// Of whole rows. Writes row (rows), and over column_sums (cols) the sums of g g.
struct AdafactorSquares {
  const float* gradient;  // (rows, cols)
  float* row;
  float* column_sums;
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
  float* gradient;
  float* exp_avg_sq;
  std::int64_t count;
  float gradient_scale, beta, one_minus_beta;
};

struct AdafactorStep {
  float* parameter;
  const float* direction;
  std::int64_t count;
  float decay, step_size;
};

}  // namespace bascule
