// SPDX-License-Identifier: Apache-2.0
// References for lamb.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/lamb.h"

namespace bascule::reference {

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

}  // namespace bascule::reference
