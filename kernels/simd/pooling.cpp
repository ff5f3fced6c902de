// SPDX-License-Identifier: Apache-2.0
// All rows of a sample made one.
#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

struct PooledRows {
  std::int64_t first, last;
  // What each of them has of the mean.
  f32x16 share() const { return set(static_cast<float>(1.0 / static_cast<double>(last - first))); }
};

template <typename Arguments>
PooledRows rows_of_sample(const Arguments& a, std::int64_t b) {
  if (a.offsets == nullptr) return {b * a.rows, (b + 1) * a.rows};
  return {a.offsets[b], a.offsets[b + 1]};
}

}  // namespace

void mean_rows_forward(const MeanRowsForward& a) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t b = a.first_sample; b < a.last_sample; ++b) {
    const PooledRows rows = rows_of_sample(a, b);
    const f32x16 share = rows.share();
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          f32x16 sum = set(0.0f);
          for (std::int64_t first = rows.first; first < rows.last; first += kBlock) {
            const std::int64_t last = first + kBlock < rows.last ? first + kBlock : rows.last;
            f32x16 part = load(a.x + first * a.cols + c, lanes);
            for (std::int64_t i = first + 1; i < last; ++i) part = part + load(a.x + i * a.cols + c, lanes);
            sum = sum + part;
          }
          store(a.out + b * a.cols + c, lanes, sum * share);
        });
  }
}

void mean_rows_backward(const MeanRowsBackward& a) {
  for (std::int64_t b = a.first_sample; b < a.last_sample; ++b) {
    const PooledRows rows = rows_of_sample(a, b);
    const f32x16 share = rows.share();
    const float* const d_out = a.d_out + b * a.cols;
    for (std::int64_t i = rows.first; i < rows.last; ++i) {
      float* const d_x = a.d_x + i * a.cols;
      for_lanes(
          a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
            const f32x16 d = load(d_out + c, lanes) * share;
            store(d_x + c, lanes, a.accumulate ? load(d_x + c, lanes) + d : d);
          });
    }
  }
}

// Comparisons and choices alone: the same bits however the compiler makes vectors of them.
void max_rows_forward(const MaxRowsForward& a) {
  for (std::int64_t b = a.first_sample; b < a.last_sample; ++b) {
    const PooledRows rows = rows_of_sample(a, b);
    float* __restrict const out = a.out + b * a.cols;
    std::int32_t* __restrict const row = a.row + b * a.cols;
    copy_row(out, a.x + rows.first * a.cols, a.cols);
    for (std::int64_t c = 0; c < a.cols; ++c) row[c] = static_cast<std::int32_t>(rows.first);
    for (std::int64_t i = rows.first + 1; i < rows.last; ++i) {
      const float* __restrict const x = a.x + i * a.cols;
      for (std::int64_t c = 0; c < a.cols; ++c) {
        const bool is_larger = x[c] > out[c];
        out[c] = is_larger ? x[c] : out[c];
        row[c] = is_larger ? static_cast<std::int32_t>(i) : row[c];
      }
    }
  }
}

void max_rows_backward(const MaxRowsBackward& a) {
  for (std::int64_t b = a.first_sample; b < a.last_sample; ++b) {
    const PooledRows rows = rows_of_sample(a, b);
    const float* __restrict const d_out = a.d_out + b * a.cols;
    const std::int32_t* __restrict const row = a.row + b * a.cols;
    for (std::int64_t i = rows.first; i < rows.last; ++i) {
      float* __restrict const d_x = a.d_x + i * a.cols;
      for (std::int64_t c = 0; c < a.cols; ++c) {
        const float d = row[c] == static_cast<std::int32_t>(i) ? d_out[c] : 0.0f;
        d_x[c] = a.accumulate ? d_x[c] + d : d;
      }
    }
  }
}

}  // namespace bascule::BASCULE_ISA
