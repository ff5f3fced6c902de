// SPDX-License-Identifier: Apache-2.0
// Reference for adamw.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/adamw.h"

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

}  // namespace bascule::reference
