// SPDX-License-Identifier: Apache-2.0
#include "src/generate/drawer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/base/digest.h"

namespace bascule::test {
namespace {

std::vector<float> latents(std::uint64_t seed, std::uint64_t picture, std::int64_t first, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count), 99.0f);
  fill_normal_latents(values.data(), seed, picture, first, count);
  return values;
}

// The mean of products of two lists: their covariance, as both have mean 0.
double covariance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum / static_cast<double>(std::min(a.size(), b.size()));
}

// Bounds of five standard errors.
TEST(NormalLatents, HaveTheMomentsOfTheNormalLaw) {
  constexpr std::int64_t kCount = 1 << 20;
  const std::vector<float> values = latents(42, 0, 0, kCount);
  double moment[5] = {};
  std::int64_t within_one = 0;
  for (const float value : values) {
    const double x = static_cast<double>(value);
    for (int power = 1; power <= 4; ++power) moment[power] += std::pow(x, power) / kCount;
    within_one += std::abs(x) < 1.0 ? 1 : 0;
  }
  const double error = 5.0 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(moment[1], 0.0, error);
  EXPECT_NEAR(moment[2], 1.0, error * std::sqrt(2.0));
  EXPECT_NEAR(moment[3], 0.0, error * std::sqrt(15.0));
  EXPECT_NEAR(moment[4], 3.0, error * std::sqrt(96.0));
  EXPECT_NEAR(static_cast<double>(within_one) / kCount, 0.682689, error * 0.466);
}

// Neighbouring elements, pictures and seeds, and the elements of neighbouring blocks, have nothing in common.
TEST(NormalLatents, OfNeighboursAreIndependent) {
  constexpr std::int64_t kCount = 1 << 18;
  const double error = 5.0 / std::sqrt(static_cast<double>(kCount));
  const std::vector<float> values = latents(42, 7, 0, kCount);
  for (const std::int64_t lag : {1, 2, 3, 4, 64})
    EXPECT_NEAR(covariance(values, latents(42, 7, lag, kCount)), 0.0, error) << lag;
  EXPECT_NEAR(covariance(values, latents(42, 8, 0, kCount)), 0.0, error);
  EXPECT_NEAR(covariance(values, latents(43, 7, 0, kCount)), 0.0, error);
  EXPECT_NEAR(covariance(values, latents(42 + (std::uint64_t{1} << 32), 7, 0, kCount)), 0.0, error);
  EXPECT_NEAR(covariance(values, latents(42, 7 + (std::uint64_t{1} << 32), 0, kCount)), 0.0, error);
  std::vector<float> squares = values, later = latents(42, 7, 1, kCount);
  for (float& x : squares) x = x * x - 1.0f;
  for (float& x : later) x = x * x - 1.0f;
  EXPECT_NEAR(covariance(squares, later), 0.0, 2.0 * error) << "also their sizes: the two of a pair share a radius";
}

TEST(NormalLatents, AreTheSameForAnySplit) {
  constexpr std::int64_t kCount = 1003;
  const std::vector<float> whole = latents(5, 3, 0, kCount);
  for (const std::int64_t part : {1, 2, 3, 4, 5, 7, 16, 500}) {
    std::vector<float> parts;
    for (std::int64_t first = 0; first < kCount; first += part) {
      const std::vector<float> values = latents(5, 3, first, std::min(part, kCount - first));
      parts.insert(parts.end(), values.begin(), values.end());
    }
    EXPECT_EQ(parts, whole) << part;
  }
}

// The digest is that of numpy's and Python's arithmetic by the same law.
TEST(NormalLatents, HaveTheseBitsOnEveryMachine) {
  const std::vector<float> values = latents(2026, 11, 0, 4 * 64 * 64);
  Sha256 sum;
  sum.add(values.data(), values.size() * sizeof(float));
  EXPECT_EQ(sum.hex().substr(0, 16), "492e03945f69036f");
}

}  // namespace
}  // namespace bascule::test
