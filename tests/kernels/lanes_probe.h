// SPDX-License-Identifier: Apache-2.0
// The functions of lanes_math.h, made callable from a test: lanes_probe.cpp is compiled once per ISA, as the kernels
// are.
#pragma once

#include <cstdint>

namespace bascule {

struct LanesProbe {
  // y[i] = f(x[i])
  void (*exp)(float* y, const float* x, std::int64_t count);
  void (*log)(float* y, const float* x, std::int64_t count);
  void (*tanh)(float* y, const float* x, std::int64_t count);
  void (*sigmoid)(float* y, const float* x, std::int64_t count);
  void (*sigmoid_slope)(float* y, const float* x, std::int64_t count);
  void (*normal_distribution)(float* y, const float* x, std::int64_t count);
  // The results of every function of lanes.h for sixteen pairs, kLanesProbeRows results of sixteen lanes each; any NaN
  // of an arithmetic function is one NaN. Needs count in 0 .. 16.
  void (*everything)(float* out, const float* a, const float* b, std::int64_t count);
  // `steps` steps of kProbeChains chains of fma, or of dot products of bf16 pairs, that do not wait for one another: as
  // fast as the registers allow. Returns their sum, so that nothing is left out.
  float (*multiply_adds)(std::int64_t steps);
  float (*dot_products)(std::int64_t steps);
};
constexpr std::int64_t kProbeChains = 12;
constexpr std::int64_t kLanesProbeRows = 40;

}  // namespace bascule
