// SPDX-License-Identifier: Apache-2.0
// How far an activation function, and its slope, may be from the truth: for the kernels that have one within.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/reference/activation.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test {

constexpr Activation kAllActivations[] = {Activation::kGelu,    Activation::kGeluTanh, Activation::kQuickGelu,
                                          Activation::kRelu,    Activation::kSilu,     Activation::kTanh,
                                          Activation::kSigmoid, Activation::kLinear};

// How many roundings (epsilon, relative to the result) a value may carry: those of test_lanes.cpp, in twice as many
// epsilons as ulp, and what the rounding of the function's argument t brings: |t| epsilon relative in a sigmoid, x^2 /
// 2 in the bell.
inline double roundings(Activation kind, double x) {
  const double u = 1.6 * std::abs(x) + 0.0714 * std::abs(x * x * x);
  switch (kind) {
    case Activation::kGelu: return 23 + x * x;
    case Activation::kGeluTanh: return 8 + 4 * u;
    case Activation::kQuickGelu: return 8 + 1.702 * std::abs(x);
    case Activation::kRelu: return 0;
    case Activation::kSilu: return 8;
    case Activation::kTanh: return 6;
    case Activation::kSigmoid: return 6;
    case Activation::kLinear: return 0;
  }
  return 0;
}

// The truth itself: 1 + erf and 1 + tanh cancel in double, where the kernel does not.
inline double error_of_truth(double x) { return 0x1p-51 * (1.0 + std::abs(x)); }

// The slope is value / x + x (derivative of the sigmoid or bell): two terms of either sign, each with the roundings
// above and a few of its own. What they may reach in size is slope_terms.
inline double slope_terms(Activation kind, double x) {
  const double value = x == 0.0 ? 1.0 : std::abs(reference::activation(kind, x) / x);
  return value + std::abs(reference::activation_slope(kind, x) - value) +
         std::abs(reference::activation_slope(kind, x));
}

inline std::vector<float> activation_inputs(Seeded& random, std::int64_t count) {
  std::vector<float> x = normal(random, count, 2.5);
  for (std::size_t i = 0; i + 8 < x.size(); i += 9) x[i] *= 4.0f;  // both tails
  return x;
}

}  // namespace bascule::test
