// SPDX-License-Identifier: Apache-2.0
// Small passes: filling, adding, scaling, sums down columns, blending two streams, L2 norms.
// All spans are dense unless a stride is given.
#pragma once

#include <cstdint>

#include "kernels/elements.h"

namespace bascule {

// x[i] = value
struct Fill {
  float* x;
  std::int64_t count;
  float value;
};

// out[i] = a[i] + b[i]. Aliasing: out may be a or b.
struct Add {
  float* out;
  const float *a, *b;
  std::int64_t count;
};

// out[i] (+)= factor x[i]. Aliasing: out may be x (without accumulate).
struct Scale {
  float* out;
  const float* x;
  std::int64_t count;
  float factor;
  bool accumulate;
};

// out[r, c] (+)= x[r, c] over rows with strides: copies a block into, or out of, a column slice. Aliasing: none.
struct CopyRows {
  float* out;
  const float* x;
  std::int64_t rows, cols, out_stride, x_stride;
  bool accumulate;
};

// part[c] = sum_r x[r,c], four rows at a time. Shapes: x (rows, cols) with stride; part (cols). Overwrites part.
struct ColumnSums {
  float* part;
  ConstElements x;
  std::int64_t rows, cols, stride;
};

// out[c] (+)= sum_p parts[p * stride + c], in the same order. Shapes: out (cols).
// Ends sums over row blocks: the same bits for any thread count.
struct AddParts {
  float* out;
  const float* parts;
  std::int64_t count, cols, stride;
  bool accumulate;
};

// out[i] = sum(0, term_count), where sum(b, e) of one term is terms[b][i], and of n = e - b terms sum(b, b + p) +
// sum(b + p, e), p the largest power of two below n. Sums one span over the ranks of a run: the same bits whoever does
// it, in whatever spans, and also where groups of a power of two of ranks are summed first, and then their sums.
// Shapes: terms (term_count) pointers to (count); 1 <= term_count < 2^kSumTermsLevels. Aliasing: out may be any one of
// the terms.
inline constexpr int kSumTermsLevels = 16;
struct SumTerms {
  float* out;
  const float* const* terms;
  std::int64_t term_count, count;
};

// Link towers (BridgeTowerLinkTower.forward): out = a * weight_a + c * weight_c, elementwise over `count`.
// scaled_add: weight_a = scaled_factor, weight_c = 1. interpolate: weight_a = 1 - beta, weight_c = beta.
// Overwrites out.
struct BlendForward {
  float* out;
  const float *a, *c;
  std::int64_t count;
  float weight_a, weight_c;
};

// d_a (+)= d_out * weight_a;  d_c (+)= d_out * weight_c;  dot_a[0] = sum d_out a;  dot_c[0] = sum d_out c
// Null outputs are skipped. Aliasing: d_a or d_c may be d_out (without accumulate; not both).
// Numerics: the dots are summed in float64 lanes on a fixed tree, over `count`, and rounded once.
struct BlendBackward {
  float *d_a, *d_c, *dot_a, *dot_c;
  const float *d_out, *a, *c;
  std::int64_t count;
  float weight_a, weight_c;
  bool accumulate_a, accumulate_c;
};

// y[r,:] = x[r,:] / norm[r],  norm[r] = max(|x[r,:]|_2, 1e-12). Source: torch.nn.functional.normalize.
// Shapes: y, x (rows, cols); norm (rows). Aliasing: y may be x. Overwrites y, norm.
struct NormalizeForward {
  float *y, *norm;
  const float* x;
  std::int64_t rows, cols;
};

// d_x[r,:] (+)= (d_y[r,:] - y[r,:] (d_y[r,:] . y[r,:])) / norm[r]; where the floor 1e-12 held: d_y / norm.
// Aliasing: d_x may be d_y (without accumulate).
struct NormalizeBackward {
  float* d_x;
  const float *d_y, *y, *norm;
  std::int64_t rows, cols;
  bool accumulate;
};

// The sum of squares of `count` elements: lanes in float64 on a fixed tree, the same bits on every ISA.
struct SumOfSquares {
  double* out;
  const float* x;
  std::int64_t count;
};

}  // namespace bascule
