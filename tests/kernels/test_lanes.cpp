// SPDX-License-Identifier: Apache-2.0
// The functions of lanes_math.h over the whole range of floats: 0, infinities, NaN, subnormals, and every 1021st bit
// pattern.
//
// Bounds, in ulp of the result (half an ulp is one rounding):
//   exp      polynomial 2^-28 (1/16); the sum 1 + p rounds once (1/2); p, at most 0.42 in size, comes with roundings
//   worth 1/4:
//            below 1. A subnormal result is rounded once more: below 1.5
//   log      f + low rounds once, low (below a quarter of f) carries about 2 roundings; then once more with e ln 2:
//   below 2 tanh     expm1 1.5 (two roundings, 2^-31 polynomial), the sum e + 2 and the quotient one rounding each,
//   where e is small the
//            error of e cancels by half: below 3
//   sigmoid  1 of exp (at most full weight), one rounding for the sum, one for the quotient: below 2.5; its derivative
//   two more normal   two roundings of u, which weigh d log(u p) / d log u = 2.7 at most (at x = 0): 5.3; p 1.5; bell
//   2; two products: below 11.
//            The rounding of x^2 / 2 adds x^2 / 2
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_test.h"
#include "tests/kernels/lanes_probe.h"

#define BASCULE_COMPILED_ONLY

namespace bascule {
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  namespace name {                                \
  extern const LanesProbe kLanesProbe;            \
  }
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
}  // namespace bascule

namespace bascule::test {
namespace {

using Function = void (*)(float*, const float*, std::int64_t);

std::vector<float> sample_of_all_floats() {
  std::vector<float> x = {0.0f, -0.0f, 1.0f, -1.0f};
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += 1021) {
    const std::uint32_t bits = static_cast<std::uint32_t>(pattern);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    x.push_back(value);
  }
  for (int i = -16384; i <= 16384; ++i) x.push_back(static_cast<float>(i) / 128.0f);  // where exp and erf live
  const float infinity = std::numeric_limits<float>::infinity();
  x.insert(x.end(), {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()});
  return x;
}

const LanesProbe* const kProbes[] = {
#define BASCULE_INSTRUCTION_SET(enumerator, name) &name::kLanesProbe,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
};

// The values of the first ISA, after comparing the bits of all. Any NaN equals any other.
std::vector<float> evaluate(Function LanesProbe::*function, const std::vector<float>& x) {
  std::vector<float> first;
  for (const Isa isa : isas()) {
    const LanesProbe& probe = *kProbes[static_cast<int>(set_of_all_kernels(isa))];
    std::vector<float> y(x.size());
    (probe.*function)(y.data(), x.data(), static_cast<std::int64_t>(x.size()));
    for (float& v : y) v = std::isnan(v) ? std::numeric_limits<float>::quiet_NaN() : v;
    if (first.empty()) first = y;
    EXPECT_EQ(first_different_bit(first, y), -1) << isa_name(isa);
  }
  return first;
}

// Largest error in ulp, each divided by what `allowed` says of it.
template <typename Truth, typename Allowed>
double worst_ratio(Function LanesProbe::*function, const Truth& truth, const Allowed& allowed) {
  static const std::vector<float> x = sample_of_all_floats();
  const std::vector<float> y = evaluate(function, x);
  double worst = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wide = static_cast<double>(x[i]);
    double exact = truth(wide);
    if (std::abs(exact) > 0x1.ffffffp127) exact = std::copysign(std::numeric_limits<double>::infinity(), exact);
    worst = std::max(worst, ulp_error(y[i], exact) / allowed(wide));
  }
  return worst;
}

constexpr auto kConstant = [](double ulp) { return [ulp](double) { return ulp; }; };

TEST(Lanes, ExpIsWithinItsBoundEverywhere) {
  EXPECT_LE(worst_ratio(
                &LanesProbe::exp, [](double x) { return std::exp(x); }, kConstant(1.5)),
            1.0);
}

TEST(Lanes, LogIsWithinItsBoundEverywhere) {
  EXPECT_LE(worst_ratio(
                &LanesProbe::log, [](double x) { return std::log(x); }, kConstant(2.0)),
            1.0);
}

TEST(Lanes, TanhIsWithinItsBoundEverywhere) {
  EXPECT_LE(worst_ratio(
                &LanesProbe::tanh, [](double x) { return std::tanh(x); }, kConstant(3.0)),
            1.0);
}

TEST(Lanes, SigmoidIsWithinItsBoundEverywhere) {
  const auto sigmoid = [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); };
  EXPECT_LE(worst_ratio(&LanesProbe::sigmoid, sigmoid, kConstant(2.5)), 1.0);
  const auto slope = [&](double x) { return sigmoid(x) * sigmoid(-x); };
  EXPECT_LE(worst_ratio(&LanesProbe::sigmoid_slope, slope, kConstant(4.5)), 1.0);
}

TEST(Lanes, NormalDistributionKeepsItsRelativePrecisionInTheLeftTail) {
  const auto value = [](double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); };
  // Below -13 the bell itself is subnormal and has fewer digits than the bound speaks of.
  const auto allowed = [](double x) { return x < -13.0 ? std::numeric_limits<double>::infinity() : 11.0 + x * x / 2; };
  EXPECT_LE(worst_ratio(&LanesProbe::normal_distribution, value, allowed), 1.0);
}

// Zeros, ones, ties of round, subnormals, the largest, infinities and NaNs against each other, then any bits.
std::vector<float> pairs_of_note(Seeded& random) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float notable[] = {
      0.0f,      -0.0f,         1.0f,          -1.0f,           0.5f,     1.5f,      2.5f, -2.5f,   8388607.5f,
      0x1p-126f, 0x1p-149f,     -0x1p-140f,    0x1.fffffep127f, infinity, -infinity, nan,  -252.0f, 254.0f,
      -149.5f,   0x1.010000p0f, 0x1.030000p0f, 3.0e-39f,        1.0e20f,  -7.25f};
  std::vector<float> all;
  for (const float x : notable) {
    for (const float y : notable) all.insert(all.end(), {x, y});
  }
  while (all.size() < 2 * 64 * 1024) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random.bits());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    all.push_back(value);
  }
  return all;
}

TEST(Lanes, EveryFunctionGivesTheSameBitsOnEveryIsa) {
  Seeded random;
  const std::vector<float> all = pairs_of_note(random);
  std::vector<float> a, b;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    a.push_back(all[i]);
    b.push_back(all[i + 1]);
  }
  std::vector<float> first(16 * kLanesProbeRows), other(first.size());
  for (std::size_t i = 0; i < a.size(); i += 16) {
    const std::int64_t count = static_cast<std::int64_t>(i / 16 % 17);
    for (const Isa isa : isas()) {
      std::vector<float>& out = isa == isas().front() ? first : other;
      std::fill(out.begin(), out.end(), 77.0f);
      kProbes[static_cast<int>(set_of_all_kernels(isa))]->everything(out.data(), a.data() + i, b.data() + i, count);
      ASSERT_NE(out.back(), 77.0f);
      if (isa == isas().front()) continue;
      const std::int64_t at = first_different_bit(first, other);
      ASSERT_EQ(at, -1) << isa_name(isa) << ", row " << at / 16 << ", lane " << at % 16 << ", pairs from " << i;
    }
  }
}

}  // namespace
}  // namespace bascule::test
