// SPDX-License-Identifier: Apache-2.0
// The truth is the C library's in long double, whose error is far below the bound where it has 64 digits or more.
#include "src/base/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/base/digest.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64);

// Distance in ulp of the double nearest to the truth.
long double error_in_ulp(double value, long double truth) {
  int exponent = 0;
  std::frexp(static_cast<double>(truth), &exponent);
  return std::fabs(static_cast<long double>(value) - truth) / std::ldexp(1.0L, exponent - 53);
}

constexpr int kNumbers = 200'000;

template <typename Draw, typename Fixed, typename Truth>
long double worst_error(const Draw& draw, const Fixed& fixed, const Truth& truth) {
  Seeded random;
  long double worst = 0.0L;
  for (int i = 0; i < kNumbers; ++i) {
    const double x = draw(random);
    worst = std::max(worst, error_in_ulp(fixed(x), truth(static_cast<long double>(x))));
  }
  return worst;
}

constexpr long double kBound = 0.501L;

TEST(Elementary, ExpIsWithinItsBound) {
  const auto truth = [](long double x) { return std::exp(x); };
  EXPECT_LE(worst_error([](Seeded& r) { return r.uniform(-708.0, 709.0); }, fixed_exp, truth), kBound);
  EXPECT_LE(worst_error([](Seeded& r) { return r.uniform(-1.0, 1.0); }, fixed_exp, truth), kBound);
  EXPECT_EQ(fixed_exp(0.0), 1.0);
  EXPECT_EQ(fixed_exp(710.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(fixed_exp(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_NEAR(fixed_exp(-745.0) / 0x1p-1074, 1.0, 0.5);
  EXPECT_TRUE(std::isnan(fixed_exp(std::nan(""))));
}

TEST(Elementary, LogIsWithinItsBound) {
  const auto truth = [](long double x) { return std::log(x); };
  EXPECT_LE(worst_error([](Seeded& r) { return std::exp(r.uniform(-744.0, 709.0)); }, fixed_log, truth), kBound);
  EXPECT_LE(worst_error([](Seeded& r) { return r.uniform(0.5, 2.0); }, fixed_log, truth), kBound);
  EXPECT_LE(worst_error([](Seeded& r) { return 1.0 + r.uniform(-1e-6, 1e-6); }, fixed_log, truth), kBound);
  EXPECT_EQ(fixed_log(1.0), 0.0);
  EXPECT_EQ(fixed_log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(fixed_log(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(fixed_log(-1.0)));
}

// The powers of bias corrections and schedules.
TEST(Elementary, PowerIsWithinItsBound) {
  for (const double base : {0.9, 0.98, 0.999, 0.9999, 1e-3}) {
    for (int step = 1; step < 20'000; step += 7) {
      const long double truth = std::pow(static_cast<long double>(base), static_cast<long double>(step));
      if (truth < 1e-300L) break;
      ASSERT_LE(error_in_ulp(fixed_power(base, step), truth), kBound) << base << " ^ " << step;
    }
  }
  for (const double exponent : {0.5, 1.0, 1.5, 2.0, 3.7}) {
    const auto truth = [&](long double x) { return std::pow(x, static_cast<long double>(exponent)); };
    const auto fixed = [&](double x) { return fixed_power(x, exponent); };
    EXPECT_LE(worst_error([](Seeded& r) { return r.uniform(1e-9, 1.0); }, fixed, truth), kBound) << exponent;
  }
  EXPECT_EQ(fixed_power(0.0, 2.0), 0.0);
  EXPECT_EQ(fixed_power(0.0, 0.0), 1.0);
  EXPECT_EQ(fixed_power(1.0, 1e18), 1.0);
  EXPECT_EQ(fixed_power(0.9, 1e9), 0.0);
}

TEST(Elementary, CosineAndSineAreWithinTheirBound) {
  const auto cosine = [](long double x) { return std::cos(x); };
  const auto sine = [](long double x) { return std::sin(x); };
  for (const double reach : {0.8, 7.0, 100'000.0}) {
    const auto draw = [&](Seeded& r) { return r.uniform(-reach, reach); };
    EXPECT_LE(worst_error(draw, fixed_cos, cosine), kBound) << reach;
    EXPECT_LE(worst_error(draw, fixed_sin, sine), kBound) << reach;
  }
  EXPECT_EQ(fixed_cos(0.0), 1.0);
  EXPECT_EQ(fixed_cos(3.141592653589793), -1.0);
}

TEST(Elementary, NormalDeviatesAreThoseOfTheFormula) {
  Seeded random;
  long double worst = 0.0L;
  for (int i = 0; i < kNumbers; ++i) {
    // The first next to an end of u and of a quadrant of v.
    const std::uint32_t a = i < 64 ? 0xffffffffu << i % 32 : static_cast<std::uint32_t>(random.bits());
    const std::uint32_t b = i < 64
                                ? static_cast<std::uint32_t>(i) % 4 * 0x40000000u - static_cast<std::uint32_t>(i) / 16
                                : static_cast<std::uint32_t>(random.bits());
    double first = 0.0, second = 0.0;
    fixed_normal_pair(a, b, &first, &second);
    const double u = (static_cast<double>(a) + 0.5) / 4294967296.0;
    const double angle = 6.283185307179586 * (static_cast<double>(b) + 0.5) / 4294967296.0;
    const long double radius = std::sqrt(-2.0L * std::log(static_cast<long double>(u)));
    worst = std::max(worst, error_in_ulp(first, radius * std::cos(static_cast<long double>(angle))));
    worst = std::max(worst, error_in_ulp(second, radius * std::sin(static_cast<long double>(angle))));
  }
  EXPECT_LE(worst, 4.0L);
}

// On any CPU, by any compiler.
TEST(Elementary, BitsAreTheSameEverywhere) {
  std::vector<double> values;
  for (int i = 1; i <= 4096; ++i) {
    const double x = i / 256.0;
    double first = 0.0, second = 0.0;
    fixed_normal_pair(static_cast<std::uint32_t>(i) * 2654435761u, static_cast<std::uint32_t>(i) * 2246822519u, &first,
                      &second);
    values.insert(values.end(), {fixed_exp(x - 8.0), fixed_log(x), fixed_power(x / 17.0, 3.3), fixed_cos(x),
                                 fixed_sin(x), first, second});
  }
  Digest digest;
  digest.add(values.data(), values.size() * sizeof(double));
  EXPECT_EQ(digest.value(), 187840050651785707u);
}

}  // namespace
}  // namespace bascule::test
