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

}  // namespace bascule::BASCULE_ISA
