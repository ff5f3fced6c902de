// SPDX-License-Identifier: Apache-2.0
// Reference for gate.h. See dropout.h on references.
#pragma once

#include <cstdint>

#include "kernels/gate.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/dropout.h"

namespace bascule::reference {

template <typename T>
void gate_forward(T* y, const T* x, const GateForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::uint64_t key = a.dropout.threshold == 0 ? 0 : a.row_keys[r];
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const T* const row = x + r * 2 * a.cols;
      y[r * a.cols + c] = dropout(activation(a.kind, row[c]) * row[a.cols + c], a.dropout, key, c);
    }
  }
}

template <typename T>
void gate_backward(T* d_x, const T* d_y, const T* x, const GateBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::uint64_t key = a.dropout.threshold == 0 ? 0 : a.row_keys[r];
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const T g = dropout(d_y[r * a.cols + c], a.dropout, key, c);
      const T activated = x[r * 2 * a.cols + c], factor = x[r * 2 * a.cols + a.cols + c];
      d_x[r * 2 * a.cols + c] = g * activation_slope(a.kind, activated) * factor;
      d_x[r * 2 * a.cols + a.cols + c] = g * activation(a.kind, activated);
    }
  }
}

}  // namespace bascule::reference
