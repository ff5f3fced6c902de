// SPDX-License-Identifier: Apache-2.0
// Reference for optimizers.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/optimizers.h"

namespace bascule::reference {

template <typename T>
void adamw(T* parameter, T* exp_avg, T* exp_avg_sq, const T* gradient, const AdamW& a) {
  using std::sqrt;
  for (std::int64_t i = 0; i < a.count; ++i) {
    const T g = gradient[i] * T(static_cast<double>(a.gradient_scale));
    exp_avg[i] += (g - exp_avg[i]) * T(static_cast<double>(a.one_minus_beta1));
    exp_avg_sq[i] = T(static_cast<double>(a.beta2)) * exp_avg_sq[i] + T(static_cast<double>(a.one_minus_beta2)) * g * g;
    const T denominator =
        sqrt(exp_avg_sq[i]) * T(static_cast<double>(a.inverse_sqrt_correction2)) + T(static_cast<double>(a.epsilon));
    parameter[i] =
        parameter[i] * T(static_cast<double>(a.decay)) - T(static_cast<double>(a.step_size)) * exp_avg[i] / denominator;
  }
}

// References for optimizers.h. See dropout.h on references.

template <typename T>
void lamb_direction(const T* parameter, T* exp_avg, T* exp_avg_sq, T* gradient, const LambDirection& a) {
  using std::sqrt;
  const auto wide = [](float x) { return T(static_cast<double>(x)); };
  for (std::int64_t i = 0; i < a.count; ++i) {
    const T g = gradient[i] * wide(a.gradient_scale);
    exp_avg[i] += (g - exp_avg[i]) * wide(a.one_minus_beta1);
    exp_avg_sq[i] = wide(a.beta2) * exp_avg_sq[i] + wide(a.one_minus_beta2) * g * g;
    const T denominator = sqrt(exp_avg_sq[i]) * wide(a.inverse_sqrt_correction2) + wide(a.epsilon);
    gradient[i] = exp_avg[i] * wide(a.inverse_correction1) / denominator + wide(a.weight_decay) * parameter[i];
  }
}

template <typename T>
void lamb_step(T* parameter, const T* direction, const LambStep& a) {
  for (std::int64_t i = 0; i < a.count; ++i) parameter[i] -= T(static_cast<double>(a.step_size)) * direction[i];
}

// References for optimizers.h. See dropout.h on references.

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

template <typename T>
void average(T* average, const T* value, const Average& a) {
  for (std::int64_t i = 0; i < a.count; ++i) average[i] += T(static_cast<double>(a.share)) * (value[i] - average[i]);
}

}  // namespace bascule::reference
