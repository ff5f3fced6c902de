// SPDX-License-Identifier: Apache-2.0
// Activation functions: one struct each, value and slope; the passes are the same for all.
#include <cstdint>

#include "kernels/lanes/lanes_math.h"
#include "kernels/simd/activation_values.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

struct Gelu {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x * normal_distribution(x).value; }
  [[gnu::always_inline]] static f32x16 slope(f32x16 x) {
    const Normal normal = normal_distribution(x);
    return fma(x, normal.density, normal.value);
  }
};

// x/2 (1 + tanh u) = x sigmoid(2u), which keeps its relative precision for negative x. 2u = x (k + k 0.044715 x^2), k =
// 2 sqrt(2/pi).
struct GeluTanh {
  [[gnu::always_inline]] static f32x16 argument(f32x16 x) {
    return x * fma(x * x, set(0x1.2444f2p-4f), set(0x1.988454p+0f));
  }
  // For positive x one less the small side, whose roundings then weigh little.
  [[gnu::always_inline]] static f32x16 value(f32x16 x) {
    const f32x16 u = argument(x);
    const f32x16 e = exp(set(0.0f) - abs(u));
    const f32x16 small = e / (set(1.0f) + e);
    return x * select(less(u, set(0.0f)), small, set(1.0f) - small);
  }
  [[gnu::always_inline]] static f32x16 slope(f32x16 x) {
    const Sigmoid s = sigmoid_and_derivative(argument(x));
    const f32x16 argument_slope = fma(x * x, set(0x1.b6676cp-3f), set(0x1.988454p+0f));
    return fma(x * s.derivative, argument_slope, s.value);
  }
};

struct QuickGelu {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x * sigmoid(x * set(1.702f)); }
  [[gnu::always_inline]] static f32x16 slope(f32x16 x) {
    const f32x16 argument = x * set(1.702f);
    const Sigmoid s = sigmoid_and_derivative(argument);
    return fma(argument, s.derivative, s.value);
  }
};

struct Relu {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return max(set(0.0f), x); }
  [[gnu::always_inline]] static f32x16 slope(f32x16 x) { return select(less(set(0.0f), x), set(1.0f), set(0.0f)); }
};

struct Silu {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x * sigmoid(x); }
  [[gnu::always_inline]] static f32x16 slope(f32x16 x) {
    const Sigmoid s = sigmoid_and_derivative(x);
    return fma(x, s.derivative, s.value);
  }
};

// tanh' (x) = 1 - tanh^2 (x) where that is above 1/2, else 4 sigmoid'(2x), where the difference would cancel.
struct Tanh {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return tanh(x); }
  [[gnu::always_inline]] static f32x16 slope(f32x16 x) {
    const f32x16 y = tanh(x);
    const f32x16 far = sigmoid_and_derivative(x + x).derivative * set(4.0f);
    return select(less(abs(x), set(0.8f)), fnma(y, y, set(1.0f)), far);
  }
};

struct SigmoidFunction {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return sigmoid(x); }
  [[gnu::always_inline]] static f32x16 slope(f32x16 x) { return sigmoid_and_derivative(x).derivative; }
};

struct Linear {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x; }
  [[gnu::always_inline]] static f32x16 slope(f32x16) { return set(1.0f); }
};

// run(function) with the struct of this kind.
template <typename Run>
[[gnu::always_inline]] inline void with_function(Activation kind, const Run& run) {
  switch (kind) {
    case Activation::kGelu: return run(Gelu{});
    case Activation::kGeluTanh: return run(GeluTanh{});
    case Activation::kQuickGelu: return run(QuickGelu{});
    case Activation::kRelu: return run(Relu{});
    case Activation::kSilu: return run(Silu{});
    case Activation::kTanh: return run(Tanh{});
    case Activation::kSigmoid: return run(SigmoidFunction{});
    case Activation::kLinear: return run(Linear{});
  }
}

// step(first, count) for runs of kActivationRun numbers, the last one shorter.
template <typename Step>
[[gnu::always_inline]] inline void for_runs(std::int64_t count, const Step& step) {
  for (std::int64_t first = 0; first < count; first += kActivationRun)
    step(first, count - first < kActivationRun ? count - first : kActivationRun);
}

}  // namespace

void activation_values(float* value, const float* x, std::int64_t count, Activation kind) {
  with_function(kind, [&](auto function) {
    for (std::int64_t i = 0; i < count; i += kLanes) store(value + i, decltype(function)::value(load(x + i)));
  });
}

void activation_slopes(float* slope, const float* x, std::int64_t count, Activation kind) {
  with_function(kind, [&](auto function) {
    for (std::int64_t i = 0; i < count; i += kLanes) store(slope + i, decltype(function)::slope(load(x + i)));
  });
}

void activation_forward(const ActivationForward& a) {
  for_runs(a.count, [&](std::int64_t first, std::int64_t count) {
    float x[kActivationRun], value[kActivationRun];
    copy_run(x, a.x + first, count);
    activation_values(value, x, count, a.kind);
    for_lanes(
        count, [&](auto lanes, std::int64_t i)
                   __attribute__((always_inline)) { store(a.y, first + i, lanes, load(value + i)); });
  });
}

void activation_backward(const ActivationBackward& a) {
  if (a.part != nullptr) fill_row(a.part, a.cols, 0.0f);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const ConstElements row = a.x + r * a.cols, d_y = a.d_y + r * a.cols;
    const Elements d_x = a.d_x + r * a.cols;
    for_runs(a.cols, [&](std::int64_t first, std::int64_t count) {
      float x[kActivationRun], slope[kActivationRun];
      copy_run(x, row + first, count);
      activation_slopes(slope, x, count, a.kind);
      for_lanes(
          count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            const std::int64_t c = first + i;
            const f32x16 d = load(d_y, c, lanes) * load(slope + i);
            if (a.part != nullptr) store(a.part + c, lanes, load(a.part + c, lanes) + d);
            store(d_x, c, lanes, a.accumulate ? load(d_x, c, lanes) + d : d);
          });
    });
  }
}

}  // namespace bascule::BASCULE_ISA
