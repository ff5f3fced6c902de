// SPDX-License-Identifier: Apache-2.0
// Reference for gate.h. See dropout.h on references.
#pragma once

#include <cstdint>

#include "kernels/gate.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/dropout.h"

namespace bascule::reference {

template <typename Arguments>
std::int64_t activated_col(const Arguments& a, std::int64_t c) {
  return a.half == GatedHalf::kFirst ? c : a.cols + c;
}
template <typename Arguments>
std::int64_t factor_col(const Arguments& a, std::int64_t c) {
  return a.half == GatedHalf::kFirst ? a.cols + c : c;
}

template <typename T>
void gate_forward(T* y, const T* x, const GateForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::uint64_t key = a.dropout.threshold == 0 ? 0 : a.row_keys[r];
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const T* const row = x + r * 2 * a.cols;
      const T activated = row[activated_col(a, c)], factor = row[factor_col(a, c)];
      y[r * a.cols + c] = dropout(activation(a.kind, activated) * factor, a.dropout, key, c);
    }
  }
}

template <typename T>
void gate_backward(T* d_x, const T* d_y, const T* x, const GateBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::uint64_t key = a.dropout.threshold == 0 ? 0 : a.row_keys[r];
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const T g = dropout(d_y[r * a.cols + c], a.dropout, key, c);
      const std::int64_t first = r * 2 * a.cols + activated_col(a, c), second = r * 2 * a.cols + factor_col(a, c);
      d_x[first] = g * activation_slope(a.kind, x[first]) * x[second];
      d_x[second] = g * activation(a.kind, x[first]);
    }
  }
}

}  // namespace bascule::reference
