// SPDX-License-Identifier: Apache-2.0
// Losses and their gradients.
#pragma once

#include <cstdint>

namespace bascule {

// loss[r] = log sum_c exp(logits[r,c]) - (1 - smoothing) logits[r, label[r]] - smoothing mean_c logits[r,c];
// where labels are mixed, with share[r] logits[r, label[r]] + (1 - share[r]) logits[r, mixed_label[r]] in the place of
// the label's logit.
// hit[r] = 1 if the largest logit (the first of equals) is the label's.
// For backward: top[r] = max_c logits[r,c];  others[r] = sum_{c != label[r]} exp(logits[r,c] - top[r]).
// A negative label: all four 0, logits not read (the row is not counted).
// Source: torch.nn.functional.cross_entropy with label_smoothing.
// Shapes: logits (rows, cols) dense; loss, top, others, hit, label (rows). Overwrites.
// Requires: label < cols (checked at the border), 0 <= smoothing < 1.
// Numerics: the mean is of logits - top, summed in float32 over blocks of 512 columns, in float64 over blocks.
struct CrossEntropyForward {
  float *loss, *top, *others;
  std::int32_t* hit;
  const float* logits;
  const std::int32_t* label;
  std::int64_t rows, cols;
  float smoothing;
  const std::int32_t* mixed_label = nullptr;  // (rows), classes; null: labels are not mixed
  const float* share = nullptr;               // (rows), in [0, 1]
};

// d_logits[r,c] = (softmax(logits[r,:])[c] - (1 - smoothing) [c == label[r]] - smoothing / cols) * scale;
// where labels are mixed, share[r] [c == label[r]] + (1 - share[r]) [c == mixed_label[r]] stands for [c == label[r]];
// rows with a negative label: 0.
// Aliasing: d_logits may be logits. Overwrites d_logits.
// Numerics: exponentials of logits - top divided by their sum, and at the label -others / sum + smoothing (cols - 1) /
// cols: neither the rounding of a logarithm of the size of the logits nor the difference of two numbers near 1 enters.
struct CrossEntropyBackward {
  float* d_logits;
  const float *logits, *top, *others;
  const std::int32_t* label;
  std::int64_t rows, cols;
  float scale;
  float smoothing;
  const std::int32_t* mixed_label = nullptr;
  const float* share = nullptr;
};

// One direction of the contrastive loss for the rows given, against all columns:
//   logits[r,j] = scale * a[r,:] . b[j,:];   loss[r] = logsumexp_j(logits[r,:]) - logits[r, diagonal + r]
//   weights[r,j] = softmax(logits[r,:])[j] - [j == diagonal + r];   slope[r] = sum_j weights[r,j] (a[r,:] . b[j,:])
// slope is d loss / d scale; null: it is not wanted. Source: BridgeTowerForContrastiveLearning.forward.
// Shapes: a (rows, width), b (columns, width), weights (rows, columns), loss, slope (rows). Overwrites. Aliasing: none.
struct ContrastiveForward {
  float *loss, *slope, *weights;
  const float *a, *b;
  std::int64_t rows, columns, width;
  std::int64_t diagonal;
  float scale;
};

// out[r,:] (+)= factor * sum_j w(r,j) x[j,:], j in order;  w(r,j) = weights[r * row_stride + j * column_stride]
// One call serves d_a (x = b; strides columns, 1), another d_b (x = a; strides 1, columns).
// Shapes: out (rows, width), whose rows are out_stride apart, x (terms, width).
struct WeightedRowSum {
  float* out;
  const float *weights, *x;
  std::int64_t rows, terms, width;
  std::int64_t row_stride, column_stride, out_stride;
  float factor;
  bool accumulate;
};

}  // namespace bascule
