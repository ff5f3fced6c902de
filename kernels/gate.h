// SPDX-License-Identifier: Apache-2.0
// Gated activation: one half of a row's columns, activated, times the other half; with dropout behind.
// Source: Shazeer 2020, "GLU Variants Improve Transformer"; T5DenseGatedActDense of Transformers, GEGLU of Diffusers.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace bascule {

// Which half of the columns is activated.
enum class GatedHalf : int { kFirst, kSecond };

// y[r,c] = dropout(f(x[r, a + c]) * x[r, b + c]), where (a, b) = (0, cols) for kFirst, and (cols, 0) for kSecond
// Shapes: y (rows, cols), x (rows, 2 cols), dense; row_keys (rows) for dropout. Aliasing: none. Overwrites y.
// Numerics: f as activation.h has it, one product, one more for dropout.
struct GateForward {
  Elements y;
  ConstElements x;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  Activation kind;
  GatedHalf half;
  DropoutStream dropout;
};

// With g = dropout(d_y):  d_x[r, a + c] = g f'(x[r, a + c]) x[r, b + c];  d_x[r, b + c] = g f(x[r, a + c])
// Shapes: d_x, x (rows, 2 cols), d_y (rows, cols), dense. Aliasing: d_x may be x, of one type. Overwrites d_x.
struct GateBackward {
  Elements d_x;
  ConstElements d_y, x;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  Activation kind;
  GatedHalf half;
  DropoutStream dropout;
};

}  // namespace bascule
