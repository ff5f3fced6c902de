// SPDX-License-Identifier: Apache-2.0
// How far a float result is from a double truth, and whether two results are the same bits.
//
//   EXPECT_LE(relative_l2(y, truth), 3e-7);
//   EXPECT_EQ(first_different_bit(y_avx2, y_avx512), -1);
//   EXPECT_LE(std::abs(sum - truth), sum_bound(n, sum_of_magnitudes));
//
// All take two containers with data() and size() of equal length (std::vector, Span, GuardedBuffer).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace bascule::test {

constexpr double kFloatEpsilon = 0x1p-24;  // half an ulp of 1.0f: the relative error of one rounding

// Error of any float sum of `terms` values, whatever its order: (terms - 1) * epsilon * sum |value|, to first order.
constexpr double sum_bound(std::int64_t terms, double sum_of_magnitudes) {
  return static_cast<double>(terms > 1 ? terms - 1 : 0) * kFloatEpsilon * sum_of_magnitudes;
}

// Distance from `truth` in units of the float spacing there (denormals included); infinite if only one of them is NaN.
inline double ulp_error(float value, double truth) {
  if (std::isnan(value) || std::isnan(truth)) {
    return std::isnan(value) && std::isnan(truth) ? 0.0 : std::numeric_limits<double>::infinity();
  }
  if (static_cast<double>(value) == truth) return 0.0;
  int exponent = -125;  // of the smallest normal float, and of all below it
  if (truth != 0.0) std::frexp(truth, &exponent);
  const double spacing = std::ldexp(1.0, std::max(exponent, -125) - 24);
  return std::abs(static_cast<double>(value) - truth) / spacing;
}

// |values - truth|_2 / |truth|_2; the plain norm of values where the truth is all zero. NaN anywhere gives NaN, which
// fails any <=.
template <typename Values, typename Truth>
double relative_l2(const Values& values, const Truth& truth) {
  if (values.size() != truth.size()) return std::numeric_limits<double>::infinity();
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double expected = static_cast<double>(truth.data()[i]);
    const double difference = static_cast<double>(values.data()[i]) - expected;
    error += difference * difference;
    norm += expected * expected;
  }
  return norm > 0.0 ? std::sqrt(error / norm) : std::sqrt(error);
}

template <typename Values, typename Truth>
double max_abs_error(const Values& values, const Truth& truth) {
  if (values.size() != truth.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double error = std::abs(static_cast<double>(values.data()[i]) - static_cast<double>(truth.data()[i]));
    if (std::isnan(error)) return error;
    worst = std::max(worst, error);
  }
  return worst;
}

// Index of the first element whose bits differ, -1 if none does (so -0 and +0 differ, equal NaNs do not).
template <typename A, typename B>
std::int64_t first_different_bit(const A& a, const B& b) {
  static_assert(sizeof(a.data()[0]) == sizeof(b.data()[0]));
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a.data() + i, b.data() + i, sizeof(a.data()[0])) != 0) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace bascule::test
