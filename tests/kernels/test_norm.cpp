// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/reference/elementwise.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/dual.h"

namespace bascule::test::test_norm {
namespace {

constexpr std::int64_t kRows = 4;

// Row 2 is all zero and row 3 shorter than the floor 1e-12.
std::vector<float> rows_of(Seeded& random, std::int64_t cols) {
  std::vector<float> x = normal(random, kRows * cols);
  for (std::int64_t c = 0; c < cols; ++c) {
    x[static_cast<std::size_t>(2 * cols + c)] = 0.0f;
    x[static_cast<std::size_t>(3 * cols + c)] *= 1e-15f;
  }
  return x;
}

// norm: the squares' sum has cols / 16 + 4 additions, halved by the root, which rounds once; y: norm's error and one
// quotient.
TEST(Norm, ForwardIsWithinItsBoundAlsoInPlace) {
  Seeded random;
  for (const std::int64_t cols : lengths()) {
    const auto x = rows_of(random, cols);
    std::vector<double> y = zeros(kRows * cols), norm = zeros(kRows);
    reference::normalize_forward(y.data(), norm.data(), widened(x).data(), {nullptr, nullptr, nullptr, kRows, cols});
    const double relative = kEpsilon * (static_cast<double>(cols) / 32 + 5);
    std::vector<double> y_bound = y, norm_bound = norm;
    for (double& b : y_bound) b = std::abs(b) * (relative + kEpsilon) + 0x1p-149;
    for (double& b : norm_bound) b *= relative;
    for (const Place place : kPlaces) {
      const auto values = same_on_every_isa([&](const KernelTable& kernels) {
        Floats in(x, place), out(kRows * cols, place), length(kRows, place);
        kernels.normalize_forward({out.data(), length.data(), in.data(), kRows, cols});
        kernels.normalize_forward({in.data(), length.data(), in.data(), kRows, cols});
        EXPECT_EQ(first_different_bit(in.values(), out.values()), -1);
        return joined({out.values(), length.values()});
      });
      expect_within(values, 0, y, y_bound, "y");
      expect_within(values, y.size(), norm, norm_bound, "norm");
    }
  }
}

// The dot has cols / 16 + 5 roundings of sum |d_y y|; d_x three more, of |d_y| + |y dot|, over the norm.
void check_backward(std::int64_t cols, bool accumulate, Place place, Seeded& random) {
  const auto x = rows_of(random, cols), d_y = normal(random, kRows * cols), before = normal(random, kRows * cols);
  std::vector<float> y(x.size()), norm(kRows);
  reference::normalize_forward(y.data(), norm.data(), x.data(), {nullptr, nullptr, nullptr, kRows, cols});
  std::vector<double> d_x = widened(before), bound = widened(before);
  reference::normalize_backward(d_x.data(), widened(d_y).data(), widened(y).data(), widened(norm).data(),
                                {nullptr, nullptr, nullptr, nullptr, kRows, cols, accumulate});
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::size_t row = r * static_cast<std::size_t>(cols);
    double magnitude = 0.0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(cols); ++c) {
      magnitude += std::abs(static_cast<double>(d_y[row + c]) * static_cast<double>(y[row + c]));
    }
    for (std::size_t i = row; i < row + static_cast<std::size_t>(cols); ++i) {
      const double along = std::abs(static_cast<double>(y[i])) * magnitude;
      const double depth = static_cast<double>(cols) / 16 + 8;
      const double g = (depth * along + 3 * std::abs(static_cast<double>(d_y[i]))) / static_cast<double>(norm[r]);
      bound[i] = kEpsilon * (g + 2 * std::abs(static_cast<double>(before[i])));
    }
  }
  const auto run = [&](const KernelTable& kernels, bool in_place) {
    Floats out(before, place), d(d_y, place), in(y, place), length(norm, place);
    Floats& target = in_place ? d : out;
    kernels.normalize_backward({target.data(), d.data(), in.data(), length.data(), kRows, cols, accumulate});
    return target.values();
  };
  const auto values = same_on_every_isa([&](const KernelTable& kernels) { return run(kernels, false); });
  expect_within(values, 0, d_x, bound, "d_x");
  if (accumulate) return;
  for (const Isa isa : isas()) EXPECT_EQ(first_different_bit(values, run(kernels_for(isa), true)), -1);
}

TEST(Norm, BackwardIsWithinItsBoundAlsoInPlace) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    for (const bool accumulate : {false, true}) {
      for (const Place place : kPlaces) check_backward(cols, accumulate, place, random);
    }
  }
}

TEST(Norm, BackwardReferenceIsTheDerivativeOfTheForwardOne) {
  Seeded random;
  const auto x = normal(random, 5), d_y = normal(random, 5);
  const NormalizeForward sizes{nullptr, nullptr, nullptr, 1, 5};
  double y[5], norm, d_x[5];
  reference::normalize_forward(y, &norm, widened(x).data(), sizes);
  reference::normalize_backward(d_x, widened(d_y).data(), y, &norm, {nullptr, nullptr, nullptr, nullptr, 1, 5, false});
  for (std::size_t i = 0; i < 5; ++i) {
    std::vector<Dual> moved = constants(x), out(5);
    moved[i].derivative = 1.0;
    Dual length, loss(0.0);
    reference::normalize_forward(out.data(), &length, moved.data(), sizes);
    for (std::size_t k = 0; k < 5; ++k) loss += Dual(static_cast<double>(d_y[k])) * out[k];
    EXPECT_NEAR(loss.derivative, d_x[i], 1e-12);
  }
}

// Squares of floats are exact in double; the sum of n of them has fewer than n roundings of 2^-53.
TEST(Norm, SumOfSquaresIsExactToDoubleRoundingAndNeverOverflows) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    auto x = normal(random, count);
    if (count > 2) x[1] = 1e30f;
    const double truth = reference::sum_of_squares(widened(x).data(), count);
    for (const Place place : kPlaces) {
      same_on_every_isa([&](const KernelTable& kernels) {
        Floats in(x, place);
        double sum = -1.0;
        kernels.sum_of_squares({&sum, in.data(), count});
        EXPECT_NEAR(sum, truth, 0x1p-52 * static_cast<double>(count) * truth);
        std::vector<float> bits(2);
        std::memcpy(bits.data(), &sum, sizeof sum);
        return bits;
      });
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_norm
