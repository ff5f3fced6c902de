// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/elementwise.h"
#include "kernels/reference/loss.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/dual.h"

namespace bascule::test::test_contrastive {
namespace {

struct Sizes {
  std::int64_t rows, columns, width, diagonal;
};

// Embeddings as the model has them: rows of length one.
std::vector<float> unit_rows(Seeded& random, std::int64_t rows, std::int64_t width) {
  std::vector<float> x = normal(random, rows * width), norm(static_cast<std::size_t>(rows));
  reference::normalize_forward(x.data(), norm.data(), x.data(), {nullptr, nullptr, nullptr, rows, width});
  return x;
}

ContrastiveForward arguments(const Sizes& s, float scale) {
  return {nullptr, nullptr, nullptr, nullptr, nullptr, s.rows, s.columns, s.width, s.diagonal, scale};
}

// A dot of unit rows is within d = (width / 16 + 5) epsilon. A logit: scale (d + 1 epsilon); a weight: exp's 3 epsilon,
// the argument's error and rounding, the sum's columns / 16 + 9, a quotient, all times p <= 1; the loss twice the
// logit's and the sum's; the slope sums p (dot - dot') with |dot| <= 1: relative error of p, 2 d, and its own
// additions, times 2.
void check_forward(const Sizes& s, float scale, Place place, Seeded& random) {
  const auto a = unit_rows(random, s.rows, s.width), b = unit_rows(random, s.columns, s.width);
  std::vector<double> loss = zeros(s.rows), slope = zeros(s.rows), weights = zeros(s.rows * s.columns);
  reference::contrastive_forward(loss.data(), slope.data(), weights.data(), widened(a).data(), widened(b).data(),
                                 static_cast<double>(scale), arguments(s, scale));
  const auto values = same_on_every_isa([&](const KernelTable& kernels) {
    Floats l(s.rows, place), sl(s.rows, place), w(s.rows * s.columns, place), in_a(a, place), in_b(b, place);
    ContrastiveForward args = arguments(s, scale);
    args.loss = l.data();
    args.slope = sl.data();
    args.weights = w.data();
    args.a = in_a.data();
    args.b = in_b.data();
    kernels.contrastive_forward(args);
    return joined({l.values(), sl.values(), w.values()});
  });
  const double d = kEpsilon * (static_cast<double>(s.width) / 16 + 5);
  const double logit = static_cast<double>(scale) * (d + kEpsilon);
  const double sum = kEpsilon * (static_cast<double>(s.columns) / 16 + 9);
  const double p = 2 * logit + sum + kEpsilon * (5 + 2 * static_cast<double>(scale));
  const std::vector<double> loss_bound(loss.size(), 3 * logit + sum + 4 * kEpsilon * static_cast<double>(scale));
  const std::vector<double> slope_bound(slope.size(), 2 * (p + 2 * d + sum));
  const std::vector<double> weight_bound(weights.size(), p + kEpsilon);
  expect_within(values, 0, loss, loss_bound, "loss");
  expect_within(values, loss.size(), slope, slope_bound, "slope");
  expect_within(values, 2 * loss.size(), weights, weight_bound, "weights");
}

TEST(Contrastive, ForwardIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t n : lengths(1)) {
    for (const Place place : kPlaces) {
      check_forward({3, 7, n, 2}, 14.3f, place, random);
      if (n >= 2) check_forward({2, n, 19, n - 2}, 100.0f, place, random);
    }
  }
}

// With orthogonal rows and a scale of 40 the others have a probability of e^-40 each, which 1 - (1 - e^-40) would lose.
TEST(Contrastive, WeightOfTheDiagonalIsMinusTheSumOfTheOthersHoweverSmall) {
  constexpr std::int64_t kColumns = 5;
  std::vector<float> rows(kColumns * kColumns, 0.0f);
  for (std::size_t i = 0; i < kColumns; ++i) rows[i * (kColumns + 1)] = 1.0f;
  const auto values = same_on_every_isa([&](const KernelTable& kernels) {
    Floats loss(kColumns), slope(kColumns), weights(kColumns * kColumns), a(rows);
    kernels.contrastive_forward(
        {loss.data(), slope.data(), weights.data(), a.data(), a.data(), kColumns, kColumns, kColumns, 0, 40.0f});
    return weights.values();
  });
  const double p = std::exp(-40.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double truth = i % (kColumns + 1) == 0 ? -4 * p : p;
    EXPECT_NEAR(static_cast<double>(values[i]), truth, 1e-6 * p) << i;
  }
}

TEST(Contrastive, WeightsAndSlopeOfTheReferenceAreTheDerivativesOfItsLoss) {
  Seeded random;
  const Sizes s{2, 4, 3, 1};
  const auto a = unit_rows(random, 2, 3), b = unit_rows(random, 4, 3);
  const ContrastiveForward args = arguments(s, 5.0f);
  const auto run = [&](const std::vector<Dual>& x, const std::vector<Dual>& y, Dual scale) {
    std::vector<Dual> loss(2), slope(2), weights(8);
    reference::contrastive_forward(loss.data(), slope.data(), weights.data(), x.data(), y.data(), scale, args);
    return (loss[0] + loss[1]).derivative;
  };
  std::vector<double> loss = zeros(2), slope = zeros(2), weights = zeros(8), d_a = zeros(6), d_b = zeros(12);
  reference::contrastive_forward(loss.data(), slope.data(), weights.data(), widened(a).data(), widened(b).data(), 5.0,
                                 args);
  reference::weighted_row_sum(d_a.data(), weights.data(), widened(b).data(),
                              {nullptr, nullptr, nullptr, 2, 4, 3, 4, 1, 3, 5.0f, false});
  reference::weighted_row_sum(d_b.data(), weights.data(), widened(a).data(),
                              {nullptr, nullptr, nullptr, 4, 2, 3, 1, 4, 3, 5.0f, false});
  const std::vector<Dual> dual_a = constants(a), dual_b = constants(b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<Dual> moved = dual_a;
    moved[i].derivative = 1.0;
    EXPECT_NEAR(run(moved, dual_b, Dual(5.0)), d_a[i], 1e-12);
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    std::vector<Dual> moved = dual_b;
    moved[i].derivative = 1.0;
    EXPECT_NEAR(run(dual_a, moved, Dual(5.0)), d_b[i], 1e-12);
  }
  EXPECT_NEAR(run(dual_a, dual_b, Dual(5.0, 1.0)), slope[0] + slope[1], 1e-12);
}

// Terms are added in order by fma: (terms + 2) epsilon of the sum of magnitudes, and the sum with what was there.
void check_weighted(std::int64_t width, std::int64_t rows, bool transposed, bool accumulate, Place place,
                    Seeded& random) {
  const std::int64_t terms = 5;
  const auto weights = normal(random, rows * terms), x = normal(random, terms * width);
  const std::int64_t out_stride = width + rows % 3;  // what lies between the rows stays
  const auto before = normal(random, rows * out_stride);
  const WeightedRowSum sizes{
      nullptr,    nullptr, nullptr,   rows, terms, width, transposed ? 1 : terms, transposed ? rows : 1,
      out_stride, 0.7f,    accumulate};
  std::vector<double> out = widened(before), size = widened(before), weight_sizes = widened(weights);
  std::vector<double> x_sizes = widened(x);
  reference::weighted_row_sum(out.data(), weight_sizes.data(), x_sizes.data(), sizes);
  for (double& v : weight_sizes) v = std::abs(v);
  for (double& v : x_sizes) v = std::abs(v);
  for (double& v : size) v = std::abs(v);
  WeightedRowSum adding = sizes;
  adding.accumulate = true;
  reference::weighted_row_sum(size.data(), weight_sizes.data(), x_sizes.data(), adding);
  for (double& v : size) v *= kEpsilon * (static_cast<double>(terms) + 2);
  const auto values = same_on_every_isa([&](const KernelTable& kernels) {
    Floats y(before, place), w(weights, place), in(x, place);
    WeightedRowSum args = sizes;
    args.out = y.data();
    args.weights = w.data();
    args.x = in.data();
    kernels.weighted_row_sum(args);
    return y.values();
  });
  expect_within(values, 0, out, size, "out");
}

TEST(Contrastive, WeightedRowSumServesBothStrides) {
  Seeded random;
  for (const std::int64_t width : lengths()) {
    for (const std::int64_t rows : {1, 3, 4, 6, 9}) {
      for (const bool transposed : {false, true}) {
        check_weighted(width, rows, transposed, transposed, kPlaces[rows % 3], random);
        check_weighted(width, rows, transposed, !transposed, kPlaces[(rows + 1) % 3], random);
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_contrastive
