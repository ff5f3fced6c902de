// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/lanes_probe.h"

#include "kernels/lanes/lanes_bf16.h"
#include "kernels/lanes/lanes_math.h"
#include "kernels/lanes/lanes_philox.h"

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

// Results go to one row after another.
struct Rows {
  float* next;
  // NaNs become one: which of two operands gives its payload is the compiler's choice.
  void add(f32x16 x) { add_bits(bits_of(select(equal(x, x), x, set(__builtin_nanf(""))))); }
  void add(Mask16 x) { add(select(x, set(1.0f), set(0.0f))); }
  void add_bits(u32x16 x) {
    store(next, from_bits(x));
    next += kLanes;
  }
};

void everything(float* out, const float* a, const float* b, std::int64_t count) {
  const f32x16 x = load(a), y = load(b);
  Rows rows = {out};
  rows.add(x + y);
  rows.add(x - y);
  rows.add(x * y);
  rows.add(x / y);
  rows.add(fma(x, y, x));
  rows.add(fnma(x, y, y));
  rows.add(max(x, y));
  rows.add(min(x, y));
  rows.add(sqrt(x));
  rows.add(round(x));
  rows.add_bits(bits_of(abs(x)));
  rows.add_bits(bits_of(copy_sign(x, y)));
  rows.add(less(x, y));
  rows.add(equal(x, y));
  rows.add(load_partial(a, count, 3.0f));
  store(rows.next, set(0.0f));
  store_partial(rows.next, count, x);
  rows.next += kLanes;
  rows.add(first_lanes(count));
  // n in [-252, 254], and x where the first of two factors cannot underflow.
  const f32x16 n = round(min(set(254.0f), max(set(-252.0f), select(equal(y, y), y, set(0.0f)))));
  rows.add(scale_by_power_of_two(min(set(2.0f), max(set(0.5f), abs(x))), n));
  const u32x16 p = bits_of(x), q = bits_of(y);
  rows.add_bits(p + q);
  rows.add_bits(p - q);
  rows.add_bits(p ^ q);
  rows.add_bits(shift_left<23>(p));
  rows.add_bits(shift_right_signed<23>(p));
  rows.add(at_least(p, q));
  rows.add(signed_to_float(p));
  rows.add_bits(multiply_even(p, q));
  rows.add_bits(odd_to_even(p));
  rows.add_bits(interleave_even(p, q));
  rows.add_bits(lane_numbers());
  std::uint16_t halves[kLanes];
  store_bf16(halves, x);
  rows.add_bits(bits_of(load_bf16(halves)));
  const std::uint32_t key[2] = {0x12345678, 0x9abcdef0};
  const PhiloxWords random = philox(p, 5, 6, 7, key);
  for (const u32x16 word : random.word) rows.add_bits(word);
  rows.add(set(first_lane(x)));
  rows.add(set(square_root(first_lane(y))));
  rows.add(set(horizontal_sum(x)));
  rows.add(set(horizontal_max(y)));
  // The low half of the difference too, where float64 has more digits than float.
  const double sum = horizontal_sum(fma(to_f64(x), to_f64(y), set_f64(0x1p-60)) + to_f64(y));
  const float high = static_cast<float>(sum);
  rows.add(set(high));
  rows.add(set(static_cast<float>(sum - static_cast<double>(high))));
}

template <typename MultiplyAdd>
float run_chains(std::int64_t steps, const MultiplyAdd& multiply_add) {
  f32x16 sum[kProbeChains];  // all different, or the compiler would compute them once
#pragma GCC unroll 16
  for (int i = 0; i < kProbeChains; ++i) sum[i] = signed_to_float(lane_numbers()) + set(0.1f * static_cast<float>(i));
  float factor = 0x1p-30f;
  for (std::int64_t step = 0; step < steps; ++step) {
    asm volatile("" : "+m"(factor));  // the compiler may not compute the chains beforehand
    const f32x16 a = set(factor);
#pragma GCC unroll 16
    for (int i = 0; i < kProbeChains; ++i) sum[i] = multiply_add(a, a, sum[i]);
  }
  f32x16 all = sum[0];
#pragma GCC unroll 16
  for (int i = 1; i < kProbeChains; ++i) all = all + sum[i];
  return horizontal_sum(all);
}

float multiply_adds(std::int64_t steps) {
  return run_chains(steps, [](f32x16 a, f32x16 b, f32x16 s) { return fma(a, b, s); });
}
// A step of a pair is the instruction, or two fused multiply-adds.
float dot_products(std::int64_t steps) {
  return run_chains(steps, [](f32x16 a, f32x16 b, f32x16 s) {
#if defined(__AVX512BF16__) && !defined(BASCULE_SCALAR_LANES)
    return dot_pairs(a, b, s);
#else
    return fma(a, b, fma(a, b, s));
#endif
  });
}

}  // namespace

extern const LanesProbe kLanesProbe;
const LanesProbe kLanesProbe = {exp_all,     log_all,           tanh_all,
                                sigmoid_all, sigmoid_slope_all, normal_distribution_all,
                                everything,  multiply_adds,     dot_products};

}  // namespace bascule::BASCULE_ISA
