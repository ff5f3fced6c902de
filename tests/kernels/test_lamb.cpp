// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/optimizers.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_lamb {
namespace {

LambDirection direction_arguments(std::int64_t count, int t, double decay) {
  LambDirection a{};
  a.count = count;
  a.gradient_scale = 0.25f;
  a.weight_decay = static_cast<float>(decay);
  a.one_minus_beta1 = 0.1f;
  a.beta2 = 0.999f;
  a.one_minus_beta2 = 0.001f;
  a.inverse_correction1 = static_cast<float>(1.0 / (1.0 - std::pow(0.9, t)));
  a.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(0.999, t)));
  a.epsilon = 1e-6f;
  return a;
}

// In epsilons: m three roundings of |m| + |g|, v four of v; the quotient half of v's, its own four, and m's; u one of
// its size more.
void check(const LambDirection& arguments, Seeded& random, Place place) {
  const std::int64_t count = arguments.count;
  const std::vector<float> p0 = normal(random, count), m0 = normal(random, count, 0.01), g0 = normal(random, count);
  std::vector<float> v0 = normal(random, count, 0.01);
  for (float& v : v0) v *= v;
  std::vector<double> m = widened(m0), v = widened(v0), u = widened(g0);
  const std::vector<double> p = widened(p0), m_before = m, g = u;
  reference::lamb_direction(p.data(), m.data(), v.data(), u.data(), arguments);
  std::vector<double> m_bound = m, v_bound = v, u_bound = u;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double denominator = std::sqrt(v[i]) * static_cast<double>(arguments.inverse_sqrt_correction2) +
                               static_cast<double>(arguments.epsilon);
    const double m_size = std::abs(m_before[i]) + std::abs(0.25 * g[i]);
    m_bound[i] = kEpsilon * 3 * m_size;
    v_bound[i] = kEpsilon * 4 * v[i];
    u_bound[i] = kEpsilon *
                 (static_cast<double>(arguments.inverse_correction1) * (3 * m_size + 7 * std::abs(m[i])) / denominator +
                  2 * std::abs(static_cast<double>(arguments.weight_decay) * p[i]));
  }
  const auto values = same_on_every_isa([&](const KernelTable& kernels) {
    LambDirection a = arguments;
    Floats parameter(p0, place), exp_avg(m0, place), exp_avg_sq(v0, place), gradient(g0, place);
    a.parameter = parameter.data();
    a.exp_avg = exp_avg.data();
    a.exp_avg_sq = exp_avg_sq.data();
    a.gradient = gradient.data();
    kernels.lamb_direction(a);
    return joined({exp_avg.values(), exp_avg_sq.values(), gradient.values()});
  });
  expect_within(values, 0, m, m_bound, "exp_avg");
  expect_within(values, m.size(), v, v_bound, "exp_avg_sq");
  expect_within(values, 2 * m.size(), u, u_bound, "direction");
}

TEST(Lamb, DirectionsAreWithinTheirBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Place place : kPlaces) {
      check(direction_arguments(count, 1, 0.0), random, place);
      check(direction_arguments(count, 1000, 0.01), random, place);
    }
  }
}

TEST(Lamb, AStepIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Place place : kPlaces) {
      const std::vector<float> p0 = normal(random, count), u0 = normal(random, count);
      LambStep a{nullptr, nullptr, count, 0.125f};
      std::vector<double> p = widened(p0), bound = p;
      const std::vector<double> u = widened(u0);
      reference::lamb_step(p.data(), u.data(), a);
      for (std::size_t i = 0; i < p.size(); ++i) bound[i] = kEpsilon * std::abs(p[i]);
      const auto values = same_on_every_isa([&](const KernelTable& kernels) {
        Floats parameter(p0, place), direction(u0, place);
        a.parameter = parameter.data();
        a.direction = direction.data();
        kernels.lamb_step(a);
        return parameter.values();
      });
      expect_within(values, 0, p, bound, "parameter");
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_lamb
