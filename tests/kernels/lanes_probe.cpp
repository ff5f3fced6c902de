// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/lanes_probe.h"

#include "kernels/lanes/lanes_math.h"

namespace bascule::BASCULE_ISA {
namespace {

template <typename Function>
inline void apply(float* y, const float* x, std::int64_t count, const Function& function) {
  for_lanes(count, [&](auto lanes, std::int64_t i) { store(y + i, lanes, function(load(x + i, lanes))); });
}

void exp_all(float* y, const float* x, std::int64_t count) {
  apply(y, x, count, [](f32x16 v) { return exp(v); });
}
void log_all(float* y, const float* x, std::int64_t count) {
  apply(y, x, count, [](f32x16 v) { return log(v); });
}
void tanh_all(float* y, const float* x, std::int64_t count) {
  apply(y, x, count, [](f32x16 v) { return tanh(v); });
}
void sigmoid_all(float* y, const float* x, std::int64_t count) {
  apply(y, x, count, [](f32x16 v) { return sigmoid(v); });
}
void sigmoid_slope_all(float* y, const float* x, std::int64_t count) {
  apply(y, x, count, [](f32x16 v) { return sigmoid_and_derivative(v).derivative; });
}
void normal_distribution_all(float* y, const float* x, std::int64_t count) {
  apply(y, x, count, [](f32x16 v) { return normal_distribution(v).value; });
}

}  // namespace

extern const LanesProbe kLanesProbe;
const LanesProbe kLanesProbe = {exp_all, log_all, tanh_all, sigmoid_all, sigmoid_slope_all, normal_distribution_all};

}  // namespace bascule::BASCULE_ISA
