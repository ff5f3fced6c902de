// SPDX-License-Identifier: Apache-2.0
// Activation functions of a short run of numbers, for the kernels that apply one: each function is compiled once, and
// the kernels' loops, which know element types and dropout, are compiled for all functions together.
#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace bascule::BASCULE_ISA {

// A run's numbers. Its arrays have room for whole vectors.
constexpr std::int64_t kActivationRun = 64;

// value[i] = f(x[i]); slope[i] = f'(x[i]), for i < count rounded up to whole vectors. count <= kActivationRun.
// Aliasing: none.
void activation_values(float* value, const float* x, std::int64_t count, Activation kind);
void activation_slopes(float* slope, const float* x, std::int64_t count, Activation kind);

}  // namespace bascule::BASCULE_ISA
