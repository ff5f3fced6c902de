// SPDX-License-Identifier: Apache-2.0
// Root mean square normalisation, alone or joined to the residual sum before it: no mean is subtracted and nothing is
// added. Source: Zhang and Sennrich 2019, section 3; T5LayerNorm of Transformers.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace bascule {

// sum[r,:] = x[r,:] + dropout(h[r,:])                (h null: sum is x, and `sum` is not written)
// rstd[r]  = 1 / sqrt(mean_c(sum[r,:]^2) + epsilon)
// y[r,:]   = sum[r,:] * rstd[r] * gamma
// Shapes: y, sum, x, h (rows, cols) dense; rstd (rows); gamma (cols); row_keys (rows) for dropout.
// Aliasing: sum may be x or h; y may be none of them. Overwrites y, sum, rstd.
// Numerics: the sum of squares in float32 on a fixed tree of 16 lanes.
struct RmsNormForward {
  Elements y;
  float* sum;
  float* rstd;
  const float* x;
  const float* h;
  const float* gamma;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  float epsilon;
  DropoutStream dropout;
};

// g[r,:] = d_sum[r,:] + N'(d_y)[r,:]                 d_sum null: 0 (the sum itself has no other reader)
//   with n = sum rstd and e = d_y * gamma:  N'(d_y) = rstd (e - n mean_c(e n))
// d_x (+)= g;  d_h = dropout(g);  d_gamma_part[c] = sum_r d_y n   (rows given, in order)
// Shapes: d_x, d_h, d_sum, d_y, sum (rows, cols) dense; d_gamma_part (cols). d_h null: not wanted, or the same as d_x.
// d_gamma_part may be null. `accumulate`: add to d_x, else overwrite. All others are overwritten.
// Aliasing: d_x may be d_sum (then without accumulate) or d_y; d_h may be d_y.
struct RmsNormBackward {
  float* d_x;
  float* d_h;
  float* d_gamma_part;
  const float* d_sum;
  const float* d_y;
  const float* sum;
  const float* rstd;
  const float* gamma;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  DropoutStream dropout;
  bool accumulate;
};

}  // namespace bascule
