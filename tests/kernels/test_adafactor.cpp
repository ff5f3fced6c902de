// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/optimizers.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_adafactor {
namespace {

std::vector<float> squares(Seeded& random, std::int64_t count) {
  std::vector<float> values = normal(random, count, 0.5);
  for (float& v : values) v = v * v + 1e-6f;
  return values;
}

// In epsilons: a sum of n squares at most n roundings of itself, the state five more.
TEST(Adafactor, SquaresOfRowsAndColumnsAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    for (const std::int64_t rows : {1, 2, 7}) {
      for (const Place place : kPlaces) {
        const std::vector<float> g0 = normal(random, rows * cols), row0 = squares(random, rows);
        AdafactorSquares a{nullptr, nullptr, nullptr, rows, cols, 0.25f, 0.75f, 0.25f};
        std::vector<double> row = widened(row0), sums = zeros(cols);
        const std::vector<double> g = widened(g0);
        reference::adafactor_squares(g.data(), row.data(), sums.data(), a);
        std::vector<double> row_bound = row, sum_bound = sums;
        for (double& b : row_bound) b *= kEpsilon * static_cast<double>(5 + cols / 8);
        for (double& b : sum_bound) b *= kEpsilon * static_cast<double>(3 + rows);
        const auto values = same_on_every_isa([&](const KernelTable& kernels) {
          Floats gradient(g0, place), state(row0, place), columns(cols, place);
          a.gradient = gradient.data();
          a.row = state.data();
          a.column_sums = columns.data();
          kernels.adafactor_squares(a);
          return joined({state.values(), columns.values()});
        });
        expect_within(values, 0, row, row_bound, "row");
        expect_within(values, row.size(), sums, sum_bound, "column sums");
      }
    }
  }
}

TEST(Adafactor, DirectionsOfMatricesAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    for (const std::int64_t rows : {1, 3}) {
      for (const Place place : kPlaces) {
        const std::vector<float> g0 = normal(random, rows * cols), row = squares(random, rows),
                                 factors = squares(random, cols);
        AdafactorDirection a{nullptr, nullptr, nullptr, rows, cols, 0.25f, 0.125f};
        std::vector<double> u = widened(g0);
        const std::vector<double> wide_row = widened(row), wide_factors = widened(factors);
        reference::adafactor_direction(u.data(), wide_row.data(), wide_factors.data(), a);
        std::vector<double> bound = u;
        for (double& b : bound) b = 4 * kEpsilon * std::abs(b);
        const auto values = same_on_every_isa([&](const KernelTable& kernels) {
          Floats gradient(g0, place), rows_in(row, place), factors_in(factors, place);
          a.gradient = gradient.data();
          a.row = rows_in.data();
          a.column_factors = factors_in.data();
          kernels.adafactor_direction(a);
          return gradient.values();
        });
        expect_within(values, 0, u, bound, "direction");
      }
    }
  }
}

TEST(Adafactor, VectorsAndStepsAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Place place : kPlaces) {
      const std::vector<float> g0 = normal(random, count), v0 = squares(random, count), p0 = normal(random, count);
      AdafactorVector a{nullptr, nullptr, count, 0.25f, 0.75f, 0.25f};
      AdafactorStep step{nullptr, nullptr, count, 0.875f, 0.125f};
      std::vector<double> u = widened(g0), v = widened(v0), p = widened(p0);
      reference::adafactor_vector(u.data(), v.data(), a);
      reference::adafactor_step(p.data(), u.data(), step);
      std::vector<double> v_bound = v, u_bound = u, p_bound = p;
      for (std::size_t i = 0; i < u.size(); ++i) {
        v_bound[i] = 4 * kEpsilon * v[i];
        u_bound[i] = 5 * kEpsilon * std::abs(u[i]);
        p_bound[i] = 2 * kEpsilon * (std::abs(static_cast<double>(p0[i])) + std::abs(u[i]));
      }
      const auto values = same_on_every_isa([&](const KernelTable& kernels) {
        Floats gradient(g0, place), state(v0, place), parameter(p0, place);
        a.gradient = gradient.data();
        a.exp_avg_sq = state.data();
        kernels.adafactor_vector(a);
        step.parameter = parameter.data();
        step.direction = gradient.data();
        kernels.adafactor_step(step);
        return joined({state.values(), gradient.values(), parameter.values()});
      });
      expect_within(values, 0, v, v_bound, "exp_avg_sq");
      expect_within(values, v.size(), u, u_bound, "direction");
      expect_within(values, 2 * v.size(), p, p_bound, "parameter");
    }
  }
}

// What a gradient of zeros leaves: no direction, and no state that is zero.
TEST(Adafactor, ZerosHaveNoDirection) {
  const KernelTable& kernels = kernels_for(best_isa());
  std::vector<float> gradient(20, 0.0f), state(20, 0.0f);
  kernels.adafactor_vector({gradient.data(), state.data(), 20, 1.0f, 0.0f, 1.0f});
  EXPECT_EQ(gradient, std::vector<float>(20, 0.0f));
  EXPECT_EQ(state, std::vector<float>(20, kAdafactorFloor));
}

}  // namespace
}  // namespace bascule::test::test_adafactor
