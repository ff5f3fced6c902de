// SPDX-License-Identifier: Apache-2.0
// One direction of the contrastive loss, and the weighted sums of rows that are its gradients.
#include <cstdint>

#include "kernels/lanes/lanes_math.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

inline float dot(const float* a, const float* b, std::int64_t width) {
  f32x16 sum = set(0.0f);
  for_lanes(
      width, [&](auto lanes, std::int64_t c)
                 __attribute__((always_inline)) { sum = fma(load(a + c, lanes), load(b + c, lanes), sum); });
  return horizontal_sum(sum);
}

// out[j] = a . b[j,:]. Four columns at a time share the loads of `a`; each has the bits of dot().
inline void dots(float* out, const float* a, const float* b, std::int64_t columns, std::int64_t width) {
  std::int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    const float* const b0 = b + j * width;
    const float* const b1 = b0 + width;
    const float* const b2 = b1 + width;
    const float* const b3 = b2 + width;
    f32x16 sum0 = set(0.0f), sum1 = set(0.0f), sum2 = set(0.0f), sum3 = set(0.0f);
    for_lanes(
        width, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          const f32x16 x = load(a + c, lanes);
          sum0 = fma(x, load(b0 + c, lanes), sum0);
          sum1 = fma(x, load(b1 + c, lanes), sum1);
          sum2 = fma(x, load(b2 + c, lanes), sum2);
          sum3 = fma(x, load(b3 + c, lanes), sum3);
        });
    out[j] = horizontal_sum(sum0);
    out[j + 1] = horizontal_sum(sum1);
    out[j + 2] = horizontal_sum(sum2);
    out[j + 3] = horizontal_sum(sum3);
  }
  for (; j < columns; ++j) out[j] = dot(a, b + j * width, width);
}

}  // namespace

// weights[r,:] holds the plain dots until the last pass over it. The slope is summed as sum_j p[j] (dot[j] -
// dot[diagonal]), which is the same as p sums to 1, and p[diagonal] - 1 is minus the sum of the others: neither cancels
// where p[diagonal] is near 1.
void contrastive_forward(const ContrastiveForward& a) {
  const f32x16 scale = set(a.scale);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    float* const w = a.weights + r * a.columns;
    const std::int64_t diagonal = a.diagonal + r;
    dots(w, a.a + r * a.width, a.b, a.columns, a.width);
    const float matching = w[diagonal];
    f32x16 tops = set(-__builtin_inff());
    for_lanes(
        a.columns, [&](auto lanes, std::int64_t j) __attribute__((always_inline)) {
          tops = max(tops, keep(lanes, scale * load(w + j, lanes), -__builtin_inff()));
        });
    const float top = horizontal_max(tops);
    w[diagonal] = -__builtin_inff();  // an exponential of 0: the sum is of the others
    f32x16 sums = set(0.0f);
    for_lanes(
        a.columns, [&](auto lanes, std::int64_t j) __attribute__((always_inline)) {
          sums = sums + keep(lanes, exp(scale * load(w + j, lanes) - set(top)), 0.0f);
        });
    const float others = horizontal_sum(sums);
    const float below_top = a.scale * matching - top;
    const float sum = others + exp_of(below_top);
    w[diagonal] = matching;
    f32x16 slopes = set(0.0f);
    for_lanes(
        a.columns, [&](auto lanes, std::int64_t j) __attribute__((always_inline)) {
          const f32x16 product = load(w + j, lanes);
          const f32x16 p = exp(scale * product - set(top)) / set(sum);
          slopes = slopes + keep(lanes, p * (product - set(matching)), 0.0f);
          store(w + j, lanes, p);
        });
    w[diagonal] = -others / sum;
    a.slope[r] = horizontal_sum(slopes);
    a.loss[r] = log_of(sum) - below_top;
  }
}

namespace {

// Sixteen columns of kRows rows: each term's columns are loaded once for all of them.
template <int kRows, typename Lanes>
[[gnu::always_inline]] inline void weighted_columns(const WeightedRowSum& a, std::int64_t r, std::int64_t c,
                                                    Lanes lanes) {
  f32x16 sum[kRows];
  for (int k = 0; k < kRows; ++k) sum[k] = set(0.0f);
  const float* weight = a.weights + r * a.row_stride;
  const float* x = a.x + c;
  for (std::int64_t j = 0; j < a.terms; ++j) {
    const f32x16 term = load(x, lanes);
    for (int k = 0; k < kRows; ++k) sum[k] = fma(set(weight[k * a.row_stride]), term, sum[k]);
    weight += a.column_stride;
    x += a.width;
  }
  for (int k = 0; k < kRows; ++k) {
    float* const out = a.out + (r + k) * a.width + c;
    f32x16 value = sum[k] * set(a.factor);
    if (a.accumulate) value = load(out, lanes) + value;
    store(out, lanes, value);
  }
}

}  // namespace

void weighted_row_sum(const WeightedRowSum& a) {
  for_lanes(
      a.width, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
        std::int64_t r = 0;
        for (; r + 4 <= a.rows; r += 4) weighted_columns<4>(a, r, c, lanes);
        for (; r < a.rows; ++r) weighted_columns<1>(a, r, c, lanes);
      });
}

}  // namespace bascule::BASCULE_ISA
