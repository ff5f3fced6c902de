// SPDX-License-Identifier: Apache-2.0
// Activation functions, alone and as the gates of T5 and GEGLU.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace bascule {

// Activation functions under the names of Transformers' ACT2FN.
// Source: transformers/activations.py; Hendrycks & Gimpel 2016.

enum class Activation : int {
  kGelu,       // x/2 (1 + erf(x / sqrt 2))                              "gelu", "gelu_python"
  kGeluTanh,   // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))          "gelu_new", "gelu_pytorch_tanh", ...
  kQuickGelu,  // x sigmoid(1.702 x)                                     "quick_gelu"
  kRelu,       // max(x, 0)                                              "relu"
  kSilu,       // x sigmoid(x)                                           "silu", "swish"
  kTanh,       // tanh(x)                                                "tanh"
  kSigmoid,    // 1 / (1 + exp(-x))                                      "sigmoid"
  kLinear,     // x                                                      "linear"
};

// y = f(x). Shapes: y, x (count). Aliasing: y may be x, of one type (backward then lacks x).
// Numerics: one polynomial per function on every ISA; bound in test_activation.cpp. tanh and sigmoid are exact to a few
// ulp over the whole range, infinities included; gelu keeps its relative precision in the left tail.
struct ActivationForward {
  Elements y;
  ConstElements x;
  std::int64_t count;
  Activation kind;
};

// d_x (+)= d_y f'(x);  part[c] = sum over the rows given, in order, of d_y f'(x)   (the bias gradient below)
// Shapes: d_x, d_y, x (rows, cols) dense; part (cols), may be null.
// Aliasing: d_x may be d_y, of one type (without accumulate). part sums before d_x is rounded.
struct ActivationBackward {
  Elements d_x;
  float* part;
  ConstElements d_y, x;
  std::int64_t rows, cols;
  Activation kind;
  bool accumulate;
};

// Gated activation: one half of a row's columns, activated, times the other half; with dropout behind.
// Source: Shazeer 2020, "GLU Variants Improve Transformer"; T5DenseGatedActDense of Transformers, GEGLU of Diffusers.

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
