// SPDX-License-Identifier: Apache-2.0
// An optimizer that the program does not have: of every row of a tensor it keeps the mean of squares, as Adafactor's
// row factor does, and of every element a velocity.
#pragma once

#include <cmath>

#include "src/update/optimizer.h"

namespace bascule::test {

inline void row_block(const OptimizerBlock& b) noexcept {
  const double beta1 = b.settings.beta1, beta2 = b.settings.beta2, scale = static_cast<double>(b.gradient_scale);
  float* const mean = b.states[0];
  for (std::int64_t row = 0; row < b.rows; ++row) {
    const float* const gradient = b.gradient + row * b.cols;
    double squares = 0.0;
    for (std::int64_t i = 0; i < b.cols; ++i) squares += std::pow(scale * static_cast<double>(gradient[i]), 2);
    mean[row] = static_cast<float>(beta2 * static_cast<double>(mean[row]) +
                                   (1.0 - beta2) * squares / static_cast<double>(b.cols));
    const double step = scale / (std::sqrt(static_cast<double>(mean[row])) + b.settings.epsilon);
    for (std::int64_t i = 0; i < b.cols; ++i) {
      float& velocity = b.states[1][row * b.cols + i];
      velocity = static_cast<float>(beta1 * static_cast<double>(velocity) + step * static_cast<double>(gradient[i]));
      b.parameter[row * b.cols + i] -= static_cast<float>(b.learning_rate * static_cast<double>(velocity));
    }
  }
}

inline constexpr OptimizerState kRowStates[] = {{"row_mean", OptimizerState::Lies::kByRow}, {"velocity"}};
inline constexpr OptimizerPass kRowPasses[] = {&row_block};
inline constexpr OptimizerKind kRowOptimizer = {{kRowStates, 2}, {kRowPasses, 1}, 0, RunDivision::kByRow};

}  // namespace bascule::test
