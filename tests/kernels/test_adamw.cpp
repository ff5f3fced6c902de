// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/optimizers.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_adamw {
namespace {

AdamW step_arguments(std::int64_t count, int t, double decay) {
  AdamW a{};
  a.count = count;
  a.gradient_scale = 0.25f;
  a.decay = static_cast<float>(1.0 - 1e-3 * decay);
  a.one_minus_beta1 = 0.1f;
  a.beta2 = 0.999f;
  a.one_minus_beta2 = 0.001f;
  a.step_size = static_cast<float>(1e-3 / (1.0 - std::pow(0.9, t)));
  a.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(0.999, t)));
  a.epsilon = 1e-8f;
  return a;
}

struct State {
  std::vector<float> parameter, exp_avg, exp_avg_sq, gradient;
};

State random_state(Seeded& random, std::int64_t count) {
  State s{normal(random, count), normal(random, count, 0.01), normal(random, count, 0.01), normal(random, count)};
  for (float& v : s.exp_avg_sq) v *= v;
  for (std::size_t i = 0; i < s.gradient.size(); i += 5) s.gradient[i] = s.exp_avg_sq[i] = s.exp_avg[i] = 0.0f;
  return s;
}

// In epsilons: m three roundings of |m| + |g|, v four of v; the quotient half of v's, its own three, and m's; p three
// of |p|.
void check(const AdamW& arguments, const State& s, Place place) {
  std::vector<double> p = widened(s.parameter), m = widened(s.exp_avg), v = widened(s.exp_avg_sq);
  const std::vector<double> g = widened(s.gradient), before = widened(s.parameter), m_before = widened(s.exp_avg);
  reference::adamw(p.data(), m.data(), v.data(), g.data(), arguments);
  std::vector<double> p_bound = p, m_bound = m, v_bound = v;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double denominator = std::sqrt(v[i]) * static_cast<double>(arguments.inverse_sqrt_correction2) +
                               static_cast<double>(arguments.epsilon);
    const double m_size = std::abs(m_before[i]) + std::abs(0.25 * g[i]);
    m_bound[i] = kEpsilon * 3 * m_size;
    v_bound[i] = kEpsilon * 4 * v[i];
    p_bound[i] = kEpsilon * (3 * std::abs(before[i]) + static_cast<double>(arguments.step_size) *
                                                           (3 * m_size + 6 * std::abs(m[i])) / denominator);
  }
  const auto values = same_on_every_isa([&](const KernelTable& kernels) {
    AdamW a = arguments;
    Floats parameter(s.parameter, place), exp_avg(s.exp_avg, place), exp_avg_sq(s.exp_avg_sq, place);
    Floats gradient(s.gradient, place);
    a.parameter = parameter.data();
    a.exp_avg = exp_avg.data();
    a.exp_avg_sq = exp_avg_sq.data();
    a.gradient = gradient.data();
    kernels.adamw(a);
    return joined({parameter.values(), exp_avg.values(), exp_avg_sq.values()});
  });
  expect_within(values, 0, p, p_bound, "parameter");
  expect_within(values, p.size(), m, m_bound, "exp_avg");
  expect_within(values, 2 * p.size(), v, v_bound, "exp_avg_sq");
}

TEST(AdamW, OneStepIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    const State s = random_state(random, count);
    for (const Place place : kPlaces) {
      check(step_arguments(count, 1, 0.0), s, place);
      check(step_arguments(count, 1000, 0.01), s, place);
    }
  }
}

// The first step of Adam moves every parameter with a gradient by the learning rate (torch.optim.AdamW: lr * sign(g)).
TEST(AdamW, TheFirstStepMovesByTheLearningRate) {
  for (const Isa isa : isas()) {
    float p[3] = {1.0f, -2.0f, 0.5f}, m[3] = {}, v[3] = {};
    const float g[3] = {4.0f, -0.01f, 0.0f};
    AdamW a = step_arguments(3, 1, 0.0);
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

}  // namespace
}  // namespace bascule::test::test_adamw
