// SPDX-License-Identifier: Apache-2.0
// Reference for activation.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/reference/dropout.h"

namespace bascule::reference {

template <typename T>
T sigmoid(T x) {
  using std::exp;
  return x < T(0) ? exp(x) / (T(1) + exp(x)) : T(1) / (T(1) + exp(-x));
}

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;

template <typename T>
T activation(Activation kind, T x) {
  using std::erf;
  using std::tanh;
  switch (kind) {
    case Activation::kGelu: return x * T(0.5) * (T(1) + erf(x * T(kSqrtHalf)));
    case Activation::kGeluTanh: return x * T(0.5) * (T(1) + tanh(T(kSqrtTwoOverPi) * (x + T(0.044715) * x * x * x)));
    case Activation::kQuickGelu: return x * sigmoid(T(1.702) * x);
    case Activation::kRelu: return x > T(0) ? x : T(0);
    case Activation::kSilu: return x * sigmoid(x);
    case Activation::kTanh: return tanh(x);
    case Activation::kSigmoid: return sigmoid(x);
    case Activation::kLinear: return x;
  }
  return x;
}

// sigmoid'(k x), written so that neither side of 0 cancels.
template <typename T>
T sigmoid_slope(T x) {
  return sigmoid(x) * sigmoid(-x);
}

template <typename T>
T activation_slope(Activation kind, T x) {
  using std::erf;
  using std::exp;
  switch (kind) {
    case Activation::kGelu:
      return T(0.5) * (T(1) + erf(x * T(kSqrtHalf))) + x * T(kInverseSqrtTwoPi) * exp(x * x * T(-0.5));
    case Activation::kGeluTanh: {
      const T argument = T(2 * kSqrtTwoOverPi) * (x + T(0.044715) * x * x * x);
      const T argument_slope = T(2 * kSqrtTwoOverPi) * (T(1) + T(3 * 0.044715) * x * x);
      return sigmoid(argument) + x * sigmoid_slope(argument) * argument_slope;
    }
    case Activation::kQuickGelu: return sigmoid(T(1.702) * x) + T(1.702) * x * sigmoid_slope(T(1.702) * x);
    case Activation::kRelu: return x > T(0) ? T(1) : T(0);
    case Activation::kSilu: return sigmoid(x) + x * sigmoid_slope(x);
    case Activation::kTanh: return T(4) * sigmoid_slope(x + x);
    case Activation::kSigmoid: return sigmoid_slope(x);
    case Activation::kLinear: return T(1);
  }
  return T(1);
}

template <typename T>
void activation_forward(T* y, const T* x, const ActivationForward& a) {
  for (std::int64_t i = 0; i < a.count; ++i) y[i] = activation(a.kind, x[i]);
}

template <typename T>
void activation_backward(T* d_x, T* part, const T* d_y, const T* x, const ActivationBackward& a) {
  for (std::int64_t c = 0; c < a.cols && part != nullptr; ++c) part[c] = T(0);
  for (std::int64_t i = 0; i < a.rows * a.cols; ++i) {
    const T d = d_y[i] * activation_slope(a.kind, x[i]);
    if (part != nullptr) part[i % a.cols] += d;
    d_x[i] = a.accumulate ? d_x[i] + d : d;
  }
}

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
