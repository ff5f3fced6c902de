// SPDX-License-Identifier: Apache-2.0
// Cross entropy over rows as wide as a vocabulary: the second pass over a row finds it in the cache.
#include <cstdint>

#include "kernels/lanes/lanes_math.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

// sum_c exp(x[c] - shift)
inline float sum_of_exponentials(const float* x, std::int64_t count, float shift) {
  return sum_over_lanes(
      count, [&](auto lanes, std::int64_t c, f32x16 sum) __attribute__((always_inline)) {
        return sum + exp(load(x + c, lanes, -__builtin_inff()) - set(shift));
      });
}

// sum_c (x[c] - shift), in blocks: a chain as long as a vocabulary would round too often.
inline double sum_of_differences(const float* x, std::int64_t count, float shift) {
  constexpr std::int64_t kBlock = 512;
  double sum = 0.0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t left = count - first;
    sum += static_cast<double>(sum_over_lanes(
        left < kBlock ? left : kBlock, [&](auto lanes, std::int64_t c, f32x16 part) __attribute__((always_inline)) {
          return part + (load(x + first + c, lanes, shift) - set(shift));
        }));
  }
  return sum;
}

}  // namespace

void cross_entropy_forward(const CrossEntropyForward& a) {
  const double smoothing = static_cast<double>(a.smoothing);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const x = a.logits + r * a.cols;
    const std::int64_t label = a.label[r];
    if (label < 0) {
      a.loss[r] = 0.0f;
      a.top[r] = 0.0f;
      a.others[r] = 0.0f;
      a.hit[r] = 0;
      continue;
    }
    // Split at the label: of equal logits the first wins, so those before it must be smaller, those behind may be
    // equal.
    const float before = largest(x, label);
    const float behind = largest(x + label, a.cols - label);
    const float top = before < behind ? behind : before;
    const float others =
        sum_of_exponentials(x, label, top) + sum_of_exponentials(x + label + 1, a.cols - label - 1, top);
    const float below_top = x[label] - top;
    a.top[r] = top;
    a.others[r] = others;
    const float log_sum = log_of(others + exp_of(below_top));
    if (smoothing == 0.0 && a.mixed_label == nullptr) {
      a.loss[r] = log_sum - below_top;
    } else {
      const double mean = smoothing == 0.0 ? 0.0 : sum_of_differences(x, a.cols, top) / static_cast<double>(a.cols);
      double target = static_cast<double>(below_top);
      if (a.mixed_label != nullptr) {
        const double share = static_cast<double>(a.share[r]);
        target = share * target + (1.0 - share) * static_cast<double>(x[a.mixed_label[r]] - top);
      }
      a.loss[r] = static_cast<float>(static_cast<double>(log_sum) - (1.0 - smoothing) * target - smoothing * mean);
    }
    a.hit[r] = x[label] > before && x[label] >= behind ? 1 : 0;
  }
}

void cross_entropy_backward(const CrossEntropyBackward& a) {
  const double smoothed = static_cast<double>(a.smoothing) * static_cast<double>(a.scale);
  const double share = smoothed / static_cast<double>(a.cols);  // of every class in the smoothed label
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const x = a.logits + r * a.cols;
    float* const d_x = a.d_logits + r * a.cols;
    const std::int64_t label = a.label[r];
    if (label < 0) {
      fill_row(d_x, a.cols, 0.0f);
      continue;
    }
    const float top = a.top[r];
    const float factor = a.scale / (a.others[r] + exp_of(x[label] - top));  // before d_x, which may be x, is written
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(d_x + c, lanes, fma(exp(load(x + c, lanes) - set(top)), set(factor), set(-static_cast<float>(share))));
        });
    double less = smoothed - share;  // than all of the target is the label's
    if (a.mixed_label != nullptr && a.mixed_label[r] != label) {
      const double rest = (static_cast<double>(a.scale) - smoothed) * (1.0 - static_cast<double>(a.share[r]));
      float& other = d_x[a.mixed_label[r]];
      other = static_cast<float>(static_cast<double>(other) - rest);
      less += rest;
    }
    d_x[label] = -static_cast<float>(static_cast<double>(a.others[r]) * static_cast<double>(factor) - less);
  }
}

// One direction of the contrastive loss, and the weighted sums of rows that are its gradients.

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
    if (a.slope != nullptr) a.slope[r] = horizontal_sum(slopes);
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
    float* const out = a.out + (r + k) * a.out_stride + c;
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
