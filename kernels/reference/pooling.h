// SPDX-License-Identifier: Apache-2.0
// Reference for pooling.h. See dropout.h on references.
#pragma once

#include <cstdint>

#include "kernels/pooling.h"

namespace bascule::reference {

// function(b, first row, last row, c) for each column of each sample.
template <typename Arguments, typename Function>
void for_each_pool(const Arguments& a, Function function) {
  const auto row_of = [&](std::int64_t b) { return a.offsets != nullptr ? a.offsets[b] : b * a.rows; };
  for (std::int64_t b = a.first_sample; b < a.last_sample; ++b) {
    for (std::int64_t c = 0; c < a.cols; ++c) function(b, row_of(b), row_of(b + 1), c);
  }
}

template <typename T>
void mean_rows_forward(T* out, const T* x, const MeanRowsForward& a) {
  for_each_pool(a, [&](std::int64_t b, std::int64_t first, std::int64_t last, std::int64_t c) {
    T sum(0);
    for (std::int64_t i = first; i < last; ++i) sum += x[i * a.cols + c];
    out[b * a.cols + c] = sum / T(static_cast<double>(last - first));
  });
}

template <typename T>
void mean_rows_backward(T* d_x, const T* d_out, const MeanRowsBackward& a) {
  for_each_pool(a, [&](std::int64_t b, std::int64_t first, std::int64_t last, std::int64_t c) {
    for (std::int64_t i = first; i < last; ++i) {
      const T d = d_out[b * a.cols + c] / T(static_cast<double>(last - first));
      d_x[i * a.cols + c] = a.accumulate ? d_x[i * a.cols + c] + d : d;
    }
  });
}

template <typename T>
void max_rows_forward(T* out, std::int32_t* row, const T* x, const MaxRowsForward& a) {
  for_each_pool(a, [&](std::int64_t b, std::int64_t first, std::int64_t last, std::int64_t c) {
    std::int64_t best = first;
    for (std::int64_t i = first; i < last; ++i) best = x[i * a.cols + c] > x[best * a.cols + c] ? i : best;
    out[b * a.cols + c] = x[best * a.cols + c];
    row[b * a.cols + c] = static_cast<std::int32_t>(best);
  });
}

template <typename T>
void max_rows_backward(T* d_x, const T* d_out, const std::int32_t* row, const MaxRowsBackward& a) {
  for_each_pool(a, [&](std::int64_t b, std::int64_t first, std::int64_t last, std::int64_t c) {
    for (std::int64_t i = first; i < last; ++i) {
      const T d = i == row[b * a.cols + c] ? d_out[b * a.cols + c] : T(0);
      d_x[i * a.cols + c] = a.accumulate ? d_x[i * a.cols + c] + d : d;
    }
  });
}

}  // namespace bascule::reference
