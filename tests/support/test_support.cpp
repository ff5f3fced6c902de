// SPDX-License-Identifier: Apache-2.0
// The instruments themselves: a test that measures with a broken ruler proves nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tests/support/dual.h"
#include "tests/support/error_bound.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/reference_dir.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

// f(x) with one input, by its name, differentiated by Dual and by the formula of a textbook.
TEST(Dual, DerivativesAreThoseOfTheTextbook) {
  for (const double x : {0.1, 0.7, 1.3, 2.9}) {
    const Dual at(x, 1.0);
    EXPECT_DOUBLE_EQ(exp(at).derivative, std::exp(x));
    EXPECT_DOUBLE_EQ(log(at).derivative, 1.0 / x);
    EXPECT_DOUBLE_EQ(log1p(at).derivative, 1.0 / (1.0 + x));
    EXPECT_DOUBLE_EQ(sqrt(at).derivative, 0.5 / std::sqrt(x));
    EXPECT_NEAR(tanh(at).derivative, 1.0 / (std::cosh(x) * std::cosh(x)), 1e-15);
    EXPECT_DOUBLE_EQ(erf(at).derivative, 2.0 / std::sqrt(std::acos(-1.0)) * std::exp(-x * x));
    EXPECT_DOUBLE_EQ(pow(at, 3.0).derivative, 3.0 * x * x);
    EXPECT_DOUBLE_EQ((at * at / (at + 1.0)).derivative, (x * x + 2.0 * x) / ((x + 1.0) * (x + 1.0)));
    EXPECT_EQ(abs(-at).derivative, 1.0);
  }
}

TEST(Dual, MaxFollowsTheLargerValue) {
  const Dual a(1.0, 5.0);
  const Dual b(2.0, 7.0);
  EXPECT_EQ(max(a, b).derivative, 7.0);
  EXPECT_EQ(max(b, a).derivative, 7.0);
  EXPECT_EQ(min(a, b).derivative, 5.0);
}

TEST(GuardedBuffer, EveryElementCanBeWritten) {
  for (std::size_t size = 0; size < 40; ++size) {
    for (const AlignAt align : {AlignAt::kEnd, AlignAt::kStart}) {
      GuardedBuffer<float> buffer(size, align);
      EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](float v) { return v == 0.0f; }));
      std::fill(buffer.begin(), buffer.end(), 3.0f);
      EXPECT_EQ(buffer.span().size(), size);
    }
  }
}

TEST(GuardedBufferDeathTest, ReadingOneElementPastTheEndDies) {
  GuardedBuffer<float> buffer(33);
  const volatile float* const data = buffer.data();
  EXPECT_DEATH(static_cast<void>(data[33]), "");
}

TEST(GuardedBufferDeathTest, ReadingBeforeAPageAlignedStartDies) {
  GuardedBuffer<double> buffer(5, AlignAt::kStart);
  const volatile double* const data = buffer.data();
  EXPECT_DEATH(static_cast<void>(data[-1]), "");
}

TEST(Seeded, RepeatsItselfAndStaysWithinBounds) {
  Seeded a(42);
  Seeded b(42);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t value = a.integer(-3, 3);
    EXPECT_EQ(value, b.integer(-3, 3));
    EXPECT_TRUE(value >= -3 && value <= 3);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Seeded, NormalNumbersHaveMeanZeroAndVarianceOne) {
  Seeded random(7);
  const int count = 100000;
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < count; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / count, 0.0, 5.0 / std::sqrt(count));  // five standard deviations, as below
  EXPECT_NEAR(squares / count, 1.0, 5.0 * std::sqrt(2.0 / count));
}

TEST(ErrorBound, UlpErrorCountsSpacings) {
  EXPECT_EQ(ulp_error(1.0f, 1.0), 0.0);
  EXPECT_EQ(ulp_error(std::nextafter(1.0f, 2.0f), 1.0), 1.0);
  EXPECT_EQ(ulp_error(1.0f, 1.0 + 0x1p-24), 0.5);
  EXPECT_EQ(ulp_error(std::numeric_limits<float>::denorm_min(), 0.0), 1.0);
  EXPECT_TRUE(std::isinf(ulp_error(std::nanf(""), 1.0)));
}

TEST(ErrorBound, RelativeL2IsScaledByTheTruth) {
  const std::vector<float> values = {3.0f, 4.0f};
  EXPECT_DOUBLE_EQ(relative_l2(values, std::vector<double>{3.0, 5.0}), 1.0 / std::sqrt(34.0));
  EXPECT_DOUBLE_EQ(relative_l2(values, std::vector<double>{0.0, 0.0}), 5.0);
  EXPECT_TRUE(std::isinf(relative_l2(values, std::vector<double>{1.0})));
}

TEST(ErrorBound, NotANumberPassesNoBound) {
  const std::vector<float> values = {1.0f, std::nanf("")};
  const std::vector<double> truth = {1.0, 1.0};
  EXPECT_FALSE(relative_l2(values, truth) <= 1e30);
  EXPECT_FALSE(max_abs_error(values, truth) <= 1e30);
}

TEST(ErrorBound, SignedZerosDifferInBits) {
  const std::vector<float> plus = {1.0f, 0.0f};
  const std::vector<float> minus = {1.0f, -0.0f};
  EXPECT_EQ(first_different_bit(plus, minus), 1);
  EXPECT_EQ(first_different_bit(plus, plus), -1);
}

TEST(ReferenceDir, HoldsTheGoldenCases) {
  EXPECT_FALSE(reference_file("goldens/itc_add/case.json").empty()) << reference_dir();
  EXPECT_TRUE(reference_file("goldens/no_such_case/case.json").empty());
}

}  // namespace
}  // namespace bascule::test
