// SPDX-License-Identifier: Apache-2.0
// Reference for rms_norm.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/reference/dropout.h"
#include "kernels/rms_norm.h"

namespace bascule::reference {

template <typename T>
void rms_norm_forward(T* y, T* sum, T* rstd, const T* x, const T* h, const T* gamma, const RmsNormForward& a) {
  using std::sqrt;
  const bool drops = h != nullptr && a.dropout.threshold != 0;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T squares(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      T s = x[i];
      if (h != nullptr) s += drops ? dropout(h[i], a.dropout, a.row_keys[r], c) : h[i];
      sum[i] = s;
      squares += s * s;
    }
    rstd[r] = T(1) / sqrt(squares / T(static_cast<double>(a.cols)) + T(static_cast<double>(a.epsilon)));
    for (std::int64_t c = 0; c < a.cols; ++c) y[r * a.cols + c] = sum[r * a.cols + c] * rstd[r] * gamma[c];
  }
}

template <typename T>
void rms_norm_backward(T* d_x, T* d_h, T* d_gamma_part, const T* d_sum, const T* d_y, const T* sum, const T* rstd,
                       const T* gamma, const RmsNormBackward& a) {
  const T cols(static_cast<double>(a.cols));
  for (std::int64_t c = 0; c < a.cols && d_gamma_part != nullptr; ++c) d_gamma_part[c] = T(0);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T mean_e_normal(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      const T normal = sum[i] * rstd[r];
      mean_e_normal += d_y[i] * gamma[c] * normal / cols;
      if (d_gamma_part != nullptr) d_gamma_part[c] += d_y[i] * normal;
    }
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      T g = rstd[r] * (d_y[i] * gamma[c] - sum[i] * rstd[r] * mean_e_normal);
      if (d_sum != nullptr) g += d_sum[i];
      d_x[i] = a.accumulate ? d_x[i] + g : g;
      if (d_h == nullptr) continue;
      d_h[i] = a.dropout.threshold == 0 ? g : dropout(g, a.dropout, a.row_keys[r], c);
    }
  }
}

}  // namespace bascule::reference
