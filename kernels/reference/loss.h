// SPDX-License-Identifier: Apache-2.0
// Reference for loss.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/loss.h"

namespace bascule::reference {

template <typename T>
T log_sum_exp(const T* x, std::int64_t count, T scale) {
  using std::exp;
  using std::log;
  T top = scale * x[0];
  for (std::int64_t c = 1; c < count; ++c) top = top < scale * x[c] ? scale * x[c] : top;
  T sum(0);
  for (std::int64_t c = 0; c < count; ++c) sum += exp(scale * x[c] - top);
  return top + log(sum);
}

template <typename T>
void cross_entropy_forward(T* loss, T* top, T* others, std::int32_t* hit, const T* logits,
                           const CrossEntropyForward& a) {
  using std::exp;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* const x = logits + r * a.cols;
    const std::int32_t label = a.label[r];
    loss[r] = top[r] = others[r] = T(0);
    hit[r] = 0;
    if (label < 0) continue;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < a.cols; ++c) best = x[c] > x[best] ? c : best;
    hit[r] = best == label ? 1 : 0;
    top[r] = x[best];
    T mean(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      others[r] += c == label ? T(0) : exp(x[c] - top[r]);
      mean += x[c] / T(static_cast<double>(a.cols));
    }
    const T smoothing(static_cast<double>(a.smoothing));
    const T share(a.mixed_label == nullptr ? 1.0 : static_cast<double>(a.share[r]));
    const T target = a.mixed_label == nullptr ? x[label] : share * x[label] + (T(1) - share) * x[a.mixed_label[r]];
    loss[r] = log_sum_exp(x, a.cols, T(1)) - (T(1) - smoothing) * target - smoothing * mean;
  }
}

template <typename T>
void cross_entropy_backward(T* d_logits, const T* logits, const T* top, const T* others,
                            const CrossEntropyBackward& a) {
  using std::exp;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* const x = logits + r * a.cols;
    const std::int32_t label = a.label[r];
    const T sum = label < 0 ? T(1) : others[r] + exp(x[label] - top[r]);
    const T smoothing(static_cast<double>(a.smoothing)), share = smoothing / T(static_cast<double>(a.cols));
    const bool mixed = label >= 0 && a.mixed_label != nullptr;
    const T rest = T(1) - T(mixed ? static_cast<double>(a.share[r]) : 1.0);  // taken from the label's share
    for (std::int64_t c = 0; c < a.cols; ++c) {
      T p = c == label ? smoothing + (T(1) - smoothing) * rest - others[r] / sum : exp(x[c] - top[r]) / sum;
      if (mixed && c == a.mixed_label[r]) p -= (T(1) - smoothing) * rest;
      d_logits[r * a.cols + c] = label < 0 ? T(0) : (p - share) * T(static_cast<double>(a.scale));
    }
  }
}

// The scale is a number of the model (exp of logit_scale), so it is of type T as well.
template <typename T>
void contrastive_forward(T* loss, T* slope, T* weights, const T* a, const T* b, T scale,
                         const ContrastiveForward& args) {
  using std::exp;
  for (std::int64_t r = 0; r < args.rows; ++r) {
    T* const w = weights + r * args.columns;
    const std::int64_t diagonal = args.diagonal + r;
    for (std::int64_t j = 0; j < args.columns; ++j) {
      w[j] = T(0);
      for (std::int64_t c = 0; c < args.width; ++c) w[j] += a[r * args.width + c] * b[j * args.width + c];
    }
    const T total = log_sum_exp(w, args.columns, scale);
    loss[r] = total - scale * w[diagonal];
    slope[r] = T(0);
    for (std::int64_t j = 0; j < args.columns; ++j) {
      const T product = w[j];
      w[j] = exp(scale * product - total) - T(j == diagonal ? 1 : 0);
      slope[r] += w[j] * product;
    }
  }
}

template <typename T>
void weighted_row_sum(T* out, const T* weights, const T* x, const WeightedRowSum& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.width; ++c) {
      T sum(0);
      for (std::int64_t j = 0; j < a.terms; ++j) {
        sum += weights[r * a.row_stride + j * a.column_stride] * x[j * a.width + c];
      }
      T& element = out[r * a.out_stride + c];
      element = (a.accumulate ? element : T(0)) + T(static_cast<double>(a.factor)) * sum;
    }
  }
}

}  // namespace bascule::reference
