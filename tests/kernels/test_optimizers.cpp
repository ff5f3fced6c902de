// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/reference/optimizers.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_optimizers {
namespace {

using Values = std::vector<float>;
using Wide = std::vector<double>;

// Arrays that begin with these values, as they are behind run(kernels, the addresses of all): joined, and the same on
// every ISA.
Values results(const std::vector<Values>& begin, Place place,
               const std::function<void(const KernelTable&, float* const*)>& run) {
  return same_on_every_isa([&](const KernelTable& kernels) {
    std::vector<std::unique_ptr<Floats>> arrays;
    std::vector<float*> addresses;
    for (const Values& values : begin) {
      arrays.push_back(std::make_unique<Floats>(values, place));
      addresses.push_back(arrays.back()->data());
    }
    run(kernels, addresses.data());
    std::vector<Values> end;
    for (const auto& array : arrays) end.push_back(array->values());
    return joined(end);
  });
}

Wide scaled(Wide values, double factor) {
  for (double& v : values) v = factor * std::abs(v);
  return values;
}

Values squares(Seeded& random, std::int64_t count) {
  Values values = normal(random, count, 0.5);
  for (float& v : values) v = v * v + 1e-6f;
  return values;
}

// AdamW and the directions of LAMB.

// t: of the step.
template <typename Arguments>
Arguments arguments_of(std::int64_t count, int t, float epsilon) {
  Arguments a{};
  a.count = count;
  a.gradient_scale = 0.25f;
  a.one_minus_beta1 = 0.1f;
  a.beta2 = 0.999f;
  a.one_minus_beta2 = 0.001f;
  a.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(0.999, t)));
  a.epsilon = epsilon;
  return a;
}

AdamW adamw_step(std::int64_t count, int t, double decay) {
  AdamW a = arguments_of<AdamW>(count, t, 1e-8f);
  a.decay = static_cast<float>(1.0 - 1e-3 * decay);
  a.step_size = static_cast<float>(1e-3 / (1.0 - std::pow(0.9, t)));
  return a;
}

LambDirection lamb_direction(std::int64_t count, int t, double decay) {
  LambDirection a = arguments_of<LambDirection>(count, t, 1e-6f);
  a.weight_decay = static_cast<float>(decay);
  a.inverse_correction1 = static_cast<float>(1.0 / (1.0 - std::pow(0.9, t)));
  return a;
}

// The sizes that a bound is made of, for one element.
struct Element {
  double parameter, m, m_size, denominator;
};

// In epsilons: m three roundings of |m| + |g|, v four of v. result: of the arrays parameter, m, v and gradient the
// other one that is written; bound_of(element): its bound.
template <typename Arguments, typename Reference>
void check_moments(const Arguments& arguments, Seeded& random, Place place, Reference reference,
                   void (*KernelTable::*kernel)(const Arguments&), std::size_t result,
                   const std::function<double(const Element&)>& bound_of) {
  const std::int64_t n = arguments.count;
  std::vector<Values> begin = {normal(random, n), normal(random, n, 0.01), normal(random, n, 0.01), normal(random, n)};
  for (float& v : begin[2]) v *= v;
  for (std::size_t i = 0; i < begin[0].size(); i += 5) begin[1][i] = begin[2][i] = begin[3][i] = 0.0f;
  std::vector<Wide> end;
  for (const Values& values : begin) end.push_back(widened(values));
  reference(end[0].data(), end[1].data(), end[2].data(), end[3].data(), arguments);
  Wide m_bound = end[1], v_bound = scaled(end[2], 4 * kEpsilon), bound = end[result];
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const double m_size =
        std::abs(static_cast<double>(begin[1][i])) + std::abs(0.25 * static_cast<double>(begin[3][i]));
    m_bound[i] = kEpsilon * 3 * m_size;
    bound[i] = kEpsilon * bound_of({static_cast<double>(begin[0][i]), end[1][i], m_size,
                                    std::sqrt(end[2][i]) * static_cast<double>(arguments.inverse_sqrt_correction2) +
                                        static_cast<double>(arguments.epsilon)});
  }
  const Values values = results(begin, place, [&](const KernelTable& kernels, float* const* at) {
    Arguments a = arguments;
    a.parameter = at[0];
    a.exp_avg = at[1];
    a.exp_avg_sq = at[2];
    a.gradient = at[3];
    (kernels.*kernel)(a);
  });
  const std::size_t size = bound.size();
  expect_within(values, size, end[1], m_bound, "exp_avg");
  expect_within(values, 2 * size, end[2], v_bound, "exp_avg_sq");
  expect_within(values, result * size, end[result], bound, "result");
}

// The quotient has half of v's roundings, its own three, and m's; p three of |p|.
TEST(AdamW, OneStepIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const AdamW& a : {adamw_step(count, 1, 0.0), adamw_step(count, 1000, 0.01)}) {
      for (const Place place : kPlaces) {
        check_moments(a, random, place, reference::adamw<double>, &KernelTable::adamw, 0, [&](const Element& e) {
          const double quotient = (3 * e.m_size + 6 * std::abs(e.m)) / e.denominator;
          return 3 * std::abs(e.parameter) + static_cast<double>(a.step_size) * quotient;
        });
      }
    }
  }
}

// The first step of Adam moves every parameter with a gradient by the learning rate (torch.optim.AdamW: lr * sign(g)).
TEST(AdamW, TheFirstStepMovesByTheLearningRate) {
  for (const Isa isa : isas()) {
    float p[3] = {1.0f, -2.0f, 0.5f}, m[3] = {}, v[3] = {};
    const float g[3] = {4.0f, -0.01f, 0.0f};
    AdamW a = adamw_step(3, 1, 0.0);
    a.parameter = p;
    a.exp_avg = m;
    a.exp_avg_sq = v;
    a.gradient = g;
    kernels_for(isa).adamw(a);
    EXPECT_NEAR(static_cast<double>(p[0]), 1.0 - 1e-3, 1e-6);
    EXPECT_NEAR(static_cast<double>(p[1]), -2.0 + 1e-3, 1e-6);
    EXPECT_EQ(p[2], 0.5f);
  }
}

// The quotient has half of v's roundings, its own four, and m's; u one of its size more.
TEST(Lamb, DirectionsAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const LambDirection& a : {lamb_direction(count, 1, 0.0), lamb_direction(count, 1000, 0.01)}) {
      for (const Place place : kPlaces) {
        check_moments(a, random, place, reference::lamb_direction<double>, &KernelTable::lamb_direction, 3,
                      [&](const Element& e) {
                        const double quotient = (3 * e.m_size + 7 * std::abs(e.m)) / e.denominator;
                        return static_cast<double>(a.inverse_correction1) * quotient +
                               2 * std::abs(static_cast<double>(a.weight_decay) * e.parameter);
                      });
      }
    }
  }
}

TEST(Lamb, AStepIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Place place : kPlaces) {
      const Values p0 = normal(random, count), u0 = normal(random, count);
      const LambStep a{nullptr, nullptr, count, 0.125f};
      Wide p = widened(p0);
      reference::lamb_step(p.data(), widened(u0).data(), a);
      const Values values = results({p0, u0}, place, [&](const KernelTable& kernels, float* const* at) {
        kernels.lamb_step({at[0], at[1], count, a.step_size});
      });
      expect_within(values, 0, p, scaled(p, kEpsilon), "parameter");
    }
  }
}

// In epsilons: a sum of n squares at most n roundings of itself, the state five more.
TEST(Adafactor, SquaresOfRowsAndColumnsAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    for (const std::int64_t rows : {1, 2, 7}) {
      for (const Place place : kPlaces) {
        const Values g0 = normal(random, rows * cols), row0 = squares(random, rows);
        AdafactorSquares a{nullptr, nullptr, nullptr, rows, cols, 0.25f, 0.75f, 0.25f};
        Wide row = widened(row0), sums = zeros(cols);
        reference::adafactor_squares(widened(g0).data(), row.data(), sums.data(), a);
        const Values unwritten(sums.size(), 7.0f);
        const Values values = results({row0, unwritten, g0}, place, [&](const KernelTable& kernels, float* const* at) {
          a.row = at[0];
          a.column_sums = at[1];
          a.gradient = at[2];
          kernels.adafactor_squares(a);
        });
        const double row_roundings = static_cast<double>(5 + cols / 8), roundings = static_cast<double>(3 + rows);
        expect_within(values, 0, row, scaled(row, kEpsilon * row_roundings), "row");
        expect_within(values, row.size(), sums, scaled(sums, kEpsilon * roundings), "column sums");
      }
    }
  }
}

TEST(Adafactor, DirectionsOfMatricesAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    for (const std::int64_t rows : {1, 3}) {
      for (const Place place : kPlaces) {
        const Values g0 = normal(random, rows * cols), row = squares(random, rows), factors = squares(random, cols);
        AdafactorDirection a{nullptr, nullptr, nullptr, rows, cols, 0.25f, 0.125f};
        Wide u = widened(g0);
        reference::adafactor_direction(u.data(), widened(row).data(), widened(factors).data(), a);
        const Values values = results({g0, row, factors}, place, [&](const KernelTable& kernels, float* const* at) {
          a.gradient = at[0];
          a.row = at[1];
          a.column_factors = at[2];
          kernels.adafactor_direction(a);
        });
        expect_within(values, 0, u, scaled(u, 4 * kEpsilon), "direction");
      }
    }
  }
}

TEST(Adafactor, VectorsAndStepsAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Place place : kPlaces) {
      const Values g0 = normal(random, count), v0 = squares(random, count), p0 = normal(random, count);
      AdafactorVector a{nullptr, nullptr, count, 0.25f, 0.75f, 0.25f};
      AdafactorStep step{nullptr, nullptr, count, 0.875f, 0.125f};
      Wide u = widened(g0), v = widened(v0), p = widened(p0);
      reference::adafactor_vector(u.data(), v.data(), a);
      reference::adafactor_step(p.data(), u.data(), step);
      Wide p_bound = p;
      for (std::size_t i = 0; i < u.size(); ++i)
        p_bound[i] = 2 * kEpsilon * (std::abs(static_cast<double>(p0[i])) + std::abs(u[i]));
      const Values values = results({v0, g0, p0}, place, [&](const KernelTable& kernels, float* const* at) {
        a.exp_avg_sq = at[0];
        a.gradient = at[1];
        kernels.adafactor_vector(a);
        step.parameter = at[2];
        step.direction = at[1];
        kernels.adafactor_step(step);
      });
      expect_within(values, 0, v, scaled(v, 4 * kEpsilon), "exp_avg_sq");
      expect_within(values, v.size(), u, scaled(u, 5 * kEpsilon), "direction");
      expect_within(values, 2 * v.size(), p, p_bound, "parameter");
    }
  }
}

// What a gradient of zeros leaves: no direction, and no state that is zero.
TEST(Adafactor, ZerosHaveNoDirection) {
  const KernelTable& kernels = kernels_for(best_isa());
  Values gradient(20, 0.0f), state(20, 0.0f);
  kernels.adafactor_vector({gradient.data(), state.data(), 20, 1.0f, 0.0f, 1.0f});
  EXPECT_EQ(gradient, Values(20, 0.0f));
  EXPECT_EQ(state, Values(20, kAdafactorFloor));
}

// In epsilons: one rounding of the difference, which the share makes smaller, and one of the sum.
TEST(Average, AStepIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Place place : kPlaces) {
      const Values e0 = normal(random, count), p0 = normal(random, count);
      const Average a{nullptr, nullptr, count, 0.0625f};
      Wide e = widened(e0), bound = e;
      const Wide before = e, p = widened(p0);
      reference::average(e.data(), p.data(), a);
      for (std::size_t i = 0; i < e.size(); ++i)
        bound[i] = kEpsilon * (0.0625 * std::abs(p[i] - before[i]) + std::abs(e[i]));
      const Values values = results({e0, p0}, place, [&](const KernelTable& kernels, float* const* at) {
        kernels.average({at[0], at[1], count, a.share});
      });
      expect_within(values, 0, e, bound, "average");
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_optimizers
