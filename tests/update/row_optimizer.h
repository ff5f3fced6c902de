// SPDX-License-Identifier: Apache-2.0
// An optimizer that the program does not have: of every row of a matrix it keeps the mean of squares, and of every
// element a velocity. Its states may be shared out between nodes.
#pragma once

#include <cmath>

#include "src/update/optimizer.h"

namespace bascule::test {

inline void row_block(const OptimizerBlock& b) noexcept {
  const double beta1 = b.settings.beta1, beta2 = b.settings.beta2, scale = static_cast<double>(b.gradient_scale);
  const std::int64_t cols = b.block.cols;
  for (std::int64_t row = 0; row < b.block.rows; ++row) {
    const float* const gradient = b.gradient + row * cols;
    double step = scale;
    if (b.block.matrix_rows > 0) {
      double squares = 0.0;
      for (std::int64_t i = 0; i < cols; ++i) squares += std::pow(scale * static_cast<double>(gradient[i]), 2);
      float& mean = b.states[0][row];
      mean =
          static_cast<float>(beta2 * static_cast<double>(mean) + (1.0 - beta2) * squares / static_cast<double>(cols));
      step /= std::sqrt(static_cast<double>(mean)) + b.settings.epsilon;
    }
    for (std::int64_t i = 0; i < cols; ++i) {
      float& velocity = b.states[1][row * cols + i];
      velocity = static_cast<float>(beta1 * static_cast<double>(velocity) + step * static_cast<double>(gradient[i]));
      b.parameter[row * cols + i] -= static_cast<float>(b.learning_rate * static_cast<double>(velocity));
    }
  }
}

inline constexpr OptimizerState kRowStates[] = {{"row_mean", OptimizerState::Lies::kByRow}, {"velocity"}};
inline constexpr OptimizerPass kRowPasses[] = {&row_block};
inline constexpr OptimizerKind kRowOptimizer = {{kRowStates, 2}, {kRowPasses, 1}, 0, RunDivision::kByMatrix};

}  // namespace bascule::test
