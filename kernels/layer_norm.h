// SPDX-License-Identifier: Apache-2.0
// Layer normalisation, alone or joined to the residual sum before it.
// Source: Ba et al. 2016, section 3; torch.nn.LayerNorm (biased variance).
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace bascule {

// sum[r,:] = x[r,:] + dropout(h[r,:])                        (h null: sum is x, and `sum` is not written)
// y[r,:]   = (sum[r,:] - mean[r]) * rstd[r] * gamma + beta
// Shapes: y, sum, x, h (rows, cols) dense; mean, rstd (rows); gamma, beta (cols); row_keys (rows) for dropout.
// Aliasing: sum may be x or h; y may be none of them. Overwrites y, sum, mean, rstd.
// Numerics: mean, then centred sum of squares, in float32 on a fixed tree of 16 lanes.
struct LayerNormForward {
  Elements y;
  float* sum;
  float* mean;
  float* rstd;
  const float* x;
  const float* h;
  const float* gamma;
  const float* beta;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  float epsilon;
  DropoutStream dropout;
};

// g[r,:] = d_sum[r,:] + LN'(d_y)[r,:]       d_sum null: 0 (the sum itself has no other reader)
//   with n = (sum - mean) rstd and e = d_y * gamma:  LN'(d_y) = rstd (e - mean_c(e) - n mean_c(e n))
// d_x (+)= g;  d_h = dropout(g);  d_gamma_part[c] = sum_r d_y n;  d_beta_part[c] = sum_r d_y   (rows given, in order)
// Shapes: d_x, d_h, d_sum, d_y, sum (rows, cols) dense; parts (cols). d_h null: not wanted, or the same as d_x.
// d_gamma_part and d_beta_part may both be null. `accumulate`: add to d_x, else overwrite. All others are overwritten.
// Aliasing: d_x may be d_sum (then without accumulate) or d_y; d_h may be d_y.
struct LayerNormBackward {
  float* d_x;
  float* d_h;
  float* d_gamma_part;
  float* d_beta_part;
  const float* d_sum;
  const float* d_y;
  const float* sum;
  const float* mean;
  const float* rstd;
  const float* gamma;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  DropoutStream dropout;
  bool accumulate;
};

}  // namespace bascule
