// SPDX-License-Identifier: Apache-2.0
// exp, log, tanh, sigmoid and the normal distribution function on sixteen lanes: one polynomial each, the same bits on
// every ISA. Errors over all floats (tests/kernels/test_lanes.cpp holds them): exp 1, log 1, tanh and sigmoid 2.5 ulp.
// Infinities give the limits, NaN gives NaN, subnormal results are rounded as such; nothing is flushed.
//
// The polynomials are minimax fits in the relative error of the function, their coefficients rounded to float one by
// one, each time refitting the rest.
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

// x = n ln 2 + r, |r| <= ln 2 / 2. ln 2 is split in two so that n ln 2 loses nothing.
struct ReducedExponent {
  f32x16 n, r;
};
[[gnu::always_inline]] inline ReducedExponent reduce_exponent(f32x16 x) {
  const f32x16 n = round(x * set(0x1.715476p+0f));
  return {n, fnma(n, set(-0x1.05c610p-29f), fnma(n, set(0x1.62e430p-1f), x))};
}

// e^x for x <= 0. Below -104 the result is 0.
[[gnu::always_inline]] inline f32x16 exp_of_negative(f32x16 x) {
  const auto e_to_the = [](const ReducedExponent& e, auto scale) __attribute__((always_inline)) {
    f32x16 q = fma(e.r, set(0x1.6a4f32p-10f), set(0x1.123982p-7f));
    q = fma(e.r, q, set(0x1.5558aep-5f));
    q = fma(e.r, q, set(0x1.555492p-3f));
    q = fma(e.r, q, set(0x1.fffffcp-2f));
    return scale(fma(e.r * e.r, q, e.r) + set(1.0f), e.n);
  };
#ifdef BASCULE_SLOW_POWERS_OF_TWO
  if (all_less(abs(x), set(87.0f))) return e_to_the(reduce_exponent(x), scale_by_normal_power_of_two);
#endif
  return e_to_the(reduce_exponent(max(set(-104.0f), x)), scale_by_power_of_two);
}
// e^x. Above 89 the result is infinite.
[[gnu::always_inline]] inline f32x16 exp(f32x16 x) { return exp_of_negative(min(set(89.0f), x)); }

// e^x - 1 for 0 <= x <= 20, exact near 0 too.
[[gnu::always_inline]] inline f32x16 exp_minus_one(f32x16 x) {
  const ReducedExponent e = reduce_exponent(x);
  f32x16 q = fma(e.r, set(0x1.9e6ef8p-13f), set(0x1.6d3a3cp-10f));
  q = fma(e.r, q, set(0x1.1112dap-7f));
  q = fma(e.r, q, set(0x1.5554f8p-5f));
  q = fma(e.r, q, set(0x1.555554p-3f));
  q = fma(e.r, q, set(0.5f));
  const f32x16 p = fma(e.r * e.r, q, e.r);
  const f32x16 power = scale_by_power_of_two(set(1.0f), e.n);
  return fma(power, p, power - set(1.0f));
}

// Natural logarithm: x = 2^e m with sqrt(1/2) <= m < sqrt 2. 0 gives -infinity, negative numbers NaN.
[[gnu::always_inline]] inline f32x16 log(f32x16 x) {
  const Mask16 tiny = less(x, set(0x1p-126f));
  const u32x16 bits = bits_of(select(tiny, x * set(0x1p23f), x));
  const u32x16 exponent = shift_right_signed<23>(bits - set_bits(0x3f3504f3));
  const f32x16 f = from_bits(bits - shift_left<23>(exponent)) - set(1.0f);
  const f32x16 e = signed_to_float(exponent) - select(tiny, set(23.0f), set(0.0f));
  f32x16 p = fma(f, set(0x1.14763ap-4f), set(-0x1.de02d6p-4f));
  p = fma(f, p, set(0x1.e6bf38p-4f));
  p = fma(f, p, set(-0x1.fc2884p-4f));
  p = fma(f, p, set(0x1.233ba8p-3f));
  p = fma(f, p, set(-0x1.555c46p-3f));
  p = fma(f, p, set(0x1.99a476p-3f));
  p = fma(f, p, set(-0x1.000006p-2f));
  p = fma(f, p, set(0x1.555548p-2f));
  const f32x16 square = f * f;
  const f32x16 low = fma(e, set(-0x1.05c610p-29f), fma(square * f, p, square * set(-0.5f)));
  const f32x16 finite = fma(e, set(0x1.62e430p-1f), f + low);
  const f32x16 infinity = set(__builtin_inff());
  const f32x16 not_negative = select(equal(x, set(0.0f)), set(0.0f) - infinity, select(equal(x, infinity), x, finite));
  return select(less(x, set(0.0f)), set(__builtin_nanf("")), select(equal(x, x), not_negative, x));
}

// With E = e^2|x| - 1 and the sign of x: E / (E + 2) below 1/2, above it 1 - 2 / (E + 2), where the rounding of the
// quotient, less than 0.54, weighs less than that of the result. 1 to all digits from 9.02 on.
[[gnu::always_inline]] inline f32x16 tanh(f32x16 x) {
  const f32x16 e = exp_minus_one(min(set(18.5f), abs(x) + abs(x)));
  const f32x16 sum = e + set(2.0f);
  const Mask16 is_small = less(abs(x), set(0.5f));
  const f32x16 quotient = select(is_small, e, set(2.0f)) / sum;
  return copy_sign(select(is_small, quotient, set(1.0f) - quotient), x);
}

// 1 / (1 + e^-x) and its derivative, both from e^-|x|, so that neither side of 0 cancels.
struct Sigmoid {
  f32x16 value, derivative;
};
[[gnu::always_inline]] inline Sigmoid sigmoid_and_derivative(f32x16 x) {
  const f32x16 e = exp(set(0.0f) - abs(x));
  const f32x16 larger = set(1.0f) / (set(1.0f) + e);
  const f32x16 smaller = e * larger;
  return {select(less(x, set(0.0f)), smaller, larger), smaller * larger};
}
[[gnu::always_inline]] inline f32x16 sigmoid(f32x16 x) {
  const f32x16 e = exp(set(0.0f) - abs(x));
  return select(less(x, set(0.0f)), e, set(1.0f)) / (set(1.0f) + e);
}

// The normal distribution: value = P(N <= x) = (1 + erf(x / sqrt 2)) / 2 and density = e^(-x^2/2) / sqrt(2 pi).
// With t = |x|, P(N <= -t) = e^(-t^2/2) u p(u), u = 1 / (1 + 0.3 t) (the form of Abramowitz & Stegun 7.1.26): the left
// tail keeps its relative precision, which 1 + erf would cancel away.
struct Normal {
  f32x16 value, density;
};
[[gnu::always_inline]] inline Normal normal_distribution(f32x16 x) {
  const f32x16 u = set(1.0f) / fma(abs(x), set(0.3f), set(1.0f));
  f32x16 p = fma(u, set(-0x1.51e3dap-6f), set(0x1.cc877ap-4f));
  p = fma(u, p, set(-0x1.d35f60p-3f));
  p = fma(u, p, set(0x1.88c316p-3f));
  p = fma(u, p, set(-0x1.454bd8p-4f));
  p = fma(u, p, set(0x1.89d87ep-4f));
  p = fma(u, p, set(0x1.4116b0p-4f));
  p = fma(u, p, set(0x1.c385f6p-4f));
  p = fma(u, p, set(0x1.e9c42cp-4f));
  p = fma(u, p, set(0x1.ea3c98p-4f));
  const f32x16 bell = exp(x * x * set(-0.5f));
  const f32x16 tail = bell * (u * p);
  return {select(less(x, set(0.0f)), tail, set(1.0f) - tail), bell * set(0x1.988454p-2f)};
}

// One number: the same bits as in any lane.
inline float exp_of(float x) { return first_lane(exp(set(x))); }
inline float log_of(float x) { return first_lane(log(set(x))); }

}  // namespace
}  // namespace bascule::BASCULE_ISA
