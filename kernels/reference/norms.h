// SPDX-License-Identifier: Apache-2.0
// Reference for norms.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/norms.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/dropout.h"

namespace bascule::reference {

// Layer norm; root mean square where `mean` is null, which reads no beta.
template <typename T>
void row_norm_forward(T* y, T* sum, T* mean, T* rstd, const T* x, const T* h, const T* gamma, const T* beta,
                      const RowNormForward& a) {
  using std::sqrt;
  const bool drops = h != nullptr && a.dropout.threshold != 0;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T total(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      T s = x[i];
      if (h != nullptr) s += drops ? dropout(h[i], a.dropout, a.row_keys[r], c) : h[i];
      sum[i] = s;
      total += s;
    }
    const T centre = mean == nullptr ? T(0) : total / T(static_cast<double>(a.cols));
    if (mean != nullptr) mean[r] = centre;
    T squares(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const T d = sum[r * a.cols + c] - centre;
      squares += d * d;
    }
    rstd[r] = T(1) / sqrt(squares / T(static_cast<double>(a.cols)) + T(static_cast<double>(a.epsilon)));
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      y[i] = (sum[i] - centre) * rstd[r] * gamma[c];
      if (mean != nullptr) y[i] += beta[c];
    }
  }
}

// As forward: root mean square where `mean` is null, which writes no d_beta_part.
template <typename T>
void row_norm_backward(T* d_x, T* d_h, T* d_gamma_part, T* d_beta_part, const T* d_sum, const T* d_y, const T* sum,
                       const T* mean, const T* rstd, const T* gamma, const RowNormBackward& a) {
  const T cols(static_cast<double>(a.cols));
  const bool has_parts = d_gamma_part != nullptr, has_beta = has_parts && mean != nullptr;
  for (std::int64_t c = 0; c < a.cols && has_parts; ++c) d_gamma_part[c] = T(0);
  for (std::int64_t c = 0; c < a.cols && has_beta; ++c) d_beta_part[c] = T(0);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T centre = mean == nullptr ? T(0) : mean[r];
    T mean_e(0);
    T mean_e_normal(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      const T normal = (sum[i] - centre) * rstd[r];
      if (mean != nullptr) mean_e += d_y[i] * gamma[c] / cols;
      mean_e_normal += d_y[i] * gamma[c] * normal / cols;
      if (has_parts) d_gamma_part[c] += d_y[i] * normal;
      if (has_beta) d_beta_part[c] += d_y[i];
    }
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      const T normal = (sum[i] - centre) * rstd[r];
      T g = rstd[r] * (d_y[i] * gamma[c] - mean_e - normal * mean_e_normal);
      if (d_sum != nullptr) g += d_sum[i];
      d_x[i] = a.accumulate ? d_x[i] + g : g;
      if (d_h == nullptr) continue;
      d_h[i] = a.dropout.threshold == 0 ? g : dropout(g, a.dropout, a.row_keys[r], c);
    }
  }
}

template <typename T>
T count_of(std::int64_t count) {
  return T(static_cast<double>(count));
}

template <typename T>
void group_norm_sums(T* parts, const T* x, const GroupNormSums& a) {
  for (std::int64_t c = 0; c < a.channels; ++c) {
    T mean(0), rest(0), squares(0);
    for (std::int64_t r = 0; r < a.rows; ++r) mean += x[r * a.channels + c] / count_of<T>(a.rows);
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const T d = x[r * a.channels + c] - mean;
      rest += d;
      squares += d * d;
    }
    parts[c] = mean;
    parts[a.channels + c] = rest;
    parts[2 * a.channels + c] = squares;
  }
}

// sum (x - mean)^2 of a block is that about m, moved: squares + 2 (m - mean) rest + n (m - mean)^2.
template <typename T>
void group_norm_statistics(T* statistics, const T* parts, const GroupNormStatistics& a) {
  using std::sqrt;
  const std::int64_t width = a.channels / a.groups, blocks = (a.rows + a.block_rows - 1) / a.block_rows;
  const T elements = count_of<T>(a.rows * width);
  for (std::int64_t i = a.first; i < a.first + a.count; ++i) {
    const std::int64_t sample = i / a.groups, channel = i % a.groups * width;
    const auto part = [&](std::int64_t b, int what, std::int64_t c) {
      return parts[((sample * blocks + b) * 3 + what) * a.channels + c];
    };
    const auto rows_of = [&](std::int64_t b) {
      return count_of<T>(b + 1 < blocks ? a.block_rows : a.rows - b * a.block_rows);
    };
    T total(0), squares(0);
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (std::int64_t c = channel; c < channel + width; ++c) total += rows_of(b) * part(b, 0, c) + part(b, 1, c);
    }
    const T mean = total / elements;
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (std::int64_t c = channel; c < channel + width; ++c) {
        const T d = part(b, 0, c) - mean;
        squares += part(b, 2, c) + d * (T(2) * part(b, 1, c) + rows_of(b) * d);
      }
    }
    const T rstd = T(1) / sqrt(squares / elements + T(static_cast<double>(a.epsilon)));
    for (std::int64_t c = channel; c < channel + width; ++c) {
      statistics[sample * 2 * a.channels + c] = mean;
      statistics[(sample * 2 + 1) * a.channels + c] = rstd;
    }
  }
}

template <typename T>
void group_norm_forward(T* y, const T* x, const T* statistics, const T* gamma, const T* beta,
                        const GroupNormForward& a) {
  for (std::int64_t i = 0; i < a.rows * a.channels; ++i) {
    const std::int64_t c = i % a.channels;
    const T z = (x[i] - statistics[c]) * statistics[a.channels + c] * gamma[c] + beta[c];
    y[i] = a.silu ? activation(Activation::kSilu, z) : z;
  }
}

// n and g of one element.
template <typename T>
struct GroupNormGradient {
  T normal, g;
};
template <typename T>
GroupNormGradient<T> group_norm_gradient(T d_y, T x, T mean, T rstd, T gamma, T beta, bool silu) {
  const T normal = (x - mean) * rstd;
  return {normal, silu ? d_y * activation_slope(Activation::kSilu, normal * gamma + beta) : d_y};
}

template <typename T>
void group_norm_backward_sums(T* parts, const T* d_y, const T* x, const T* statistics, const T* gamma, const T* beta,
                              const GroupNormBackwardSums& a) {
  for (std::int64_t c = 0; c < a.channels; ++c) {
    T with_normal(0), alone(0);
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const std::int64_t i = r * a.channels + c;
      const auto of =
          group_norm_gradient(d_y[i], x[i], statistics[c], statistics[a.channels + c], gamma[c], beta[c], a.silu);
      with_normal += of.g * of.normal;
      alone += of.g;
    }
    parts[c] = with_normal;
    parts[a.channels + c] = alone;
  }
}

template <typename T>
void group_norm_backward_means(T* means, const T* parts, const T* gamma, const GroupNormBackwardMeans& a) {
  const std::int64_t width = a.channels / a.groups;
  for (std::int64_t i = a.first; i < a.first + a.count; ++i) {
    const std::int64_t sample = i / a.groups, channel = i % a.groups * width;
    for (int what = 0; what < 2; ++what) {
      T total(0);
      for (std::int64_t b = 0; b < a.blocks; ++b) {
        for (std::int64_t c = channel; c < channel + width; ++c)
          total += gamma[c] * parts[((sample * a.blocks + b) * 2 + what) * a.channels + c];
      }
      for (std::int64_t c = channel; c < channel + width; ++c)
        means[(sample * 2 + what) * a.channels + c] = total / count_of<T>(a.rows * width);
    }
  }
}

template <typename T>
void group_norm_backward(T* d_x, const T* d_y, const T* x, const T* statistics, const T* means, const T* gamma,
                         const T* beta, const GroupNormBackward& a) {
  for (std::int64_t i = 0; i < a.rows * a.channels; ++i) {
    const std::int64_t c = i % a.channels;
    const T rstd = statistics[a.channels + c];
    const auto of = group_norm_gradient(d_y[i], x[i], statistics[c], rstd, gamma[c], beta[c], a.silu);
    const T d = rstd * (of.g * gamma[c] - means[a.channels + c] - of.normal * means[c]);
    d_x[i] = a.accumulate ? d_x[i] + d : d;
  }
}

}  // namespace bascule::reference
