// SPDX-License-Identifier: Apache-2.0
// All rows of a sample made one: their mean, or the largest number of each column. Source: Pooling.forward of
// sentence-transformers.
//
// Each kernel does samples first_sample <= b < last_sample of all. The rows i of sample b are those from offsets[b] to
// before offsets[b + 1] or, without offsets, `rows` each; at least one.
// Shapes: x and d_x (all rows, cols); out, d_out and row (all samples, cols). Aliasing: none.
// `accumulate`: add to what is there, else overwrite.
#pragma once

#include <cstdint>

namespace bascule {

// out[b,:] = mean_i x[i,:]. Overwrites out. Numerics: float32 sums of 16 rows, then of these.
struct MeanRowsForward {
  float* out;
  const float* x;
  const std::int32_t* offsets;
  std::int64_t first_sample, last_sample, rows, cols;
};

// d_x[i,:] (+)= d_out[b,:] / (number of rows of sample b).
struct MeanRowsBackward {
  float* d_x;
  const float* d_out;
  const std::int32_t* offsets;
  std::int64_t first_sample, last_sample, rows, cols;
  bool accumulate;
};

// out[b,c] = max_i x[i,c]; row[b,c]: the first row i that has it. Overwrites both.
struct MaxRowsForward {
  float* out;
  std::int32_t* row;
  const float* x;
  const std::int32_t* offsets;
  std::int64_t first_sample, last_sample, rows, cols;
};

// d_x[i,c] (+)= d_out[b,c] where i == row[b,c], else 0.
struct MaxRowsBackward {
  float* d_x;
  const float* d_out;
  const std::int32_t *row, *offsets;
  std::int64_t first_sample, last_sample, rows, cols;
  bool accumulate;
};

}  // namespace bascule
