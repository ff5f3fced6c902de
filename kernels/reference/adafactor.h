// SPDX-License-Identifier: Apache-2.0
// References for adafactor.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/adafactor.h"

namespace bascule::reference {

template <typename T>
void adafactor_squares(const T* gradient, T* row, T* column_sums, const AdafactorSquares& a) {
  const auto wide = [](float x) { return T(static_cast<double>(x)); };
  for (std::int64_t c = 0; c < a.cols; ++c) column_sums[c] = T(0);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T sum(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const T g = gradient[r * a.cols + c] * wide(a.gradient_scale);
      sum += g * g;
      column_sums[c] += g * g;
    }
    const T mean = sum / T(static_cast<double>(a.cols)) + wide(kAdafactorFloor);
    row[r] = wide(a.beta) * row[r] + wide(a.one_minus_beta) * mean;
  }
}

template <typename T>
void adafactor_direction(T* gradient, const T* row, const T* column_factors, const AdafactorDirection& a) {
  using std::sqrt;
  const auto wide = [](float x) { return T(static_cast<double>(x)); };
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      T& g = gradient[r * a.cols + c];
      g = g * wide(a.gradient_scale) / sqrt(row[r] / wide(a.mean_row)) * column_factors[c];
    }
  }
}

template <typename T>
void adafactor_vector(T* gradient, T* exp_avg_sq, const AdafactorVector& a) {
  using std::sqrt;
  const auto wide = [](float x) { return T(static_cast<double>(x)); };
  for (std::int64_t i = 0; i < a.count; ++i) {
    const T g = gradient[i] * wide(a.gradient_scale);
    exp_avg_sq[i] = wide(a.beta) * exp_avg_sq[i] + wide(a.one_minus_beta) * (g * g + wide(kAdafactorFloor));
    gradient[i] = g / sqrt(exp_avg_sq[i]);
  }
}

template <typename T>
void adafactor_step(T* parameter, const T* direction, const AdafactorStep& a) {
  const auto wide = [](float x) { return T(static_cast<double>(x)); };
  for (std::int64_t i = 0; i < a.count; ++i)
    parameter[i] = parameter[i] * wide(a.decay) - wide(a.step_size) * direction[i];
}

}  // namespace bascule::reference
