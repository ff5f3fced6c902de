// SPDX-License-Identifier: Apache-2.0
#include "src/update/update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/table.h"
#include "tests/support/seeded.h"

namespace bascule::test::test_update {
namespace {

// Two runs of parameters, one decayed; the first is longer than a block.
constexpr std::int64_t kDecayed = kUpdateBlockElements + 48, kRest = 80;

struct Trained {
  ParameterLayout layout;
  std::vector<float> parameters, gradients, exp_avg, exp_avg_sq;
  std::vector<double> partials;
  OptimizerStates states;

  explicit Trained(std::uint64_t seed) {
    layout.runs = {{0, kDecayed, true}, {kDecayed, kRest, false}};
    layout.trained_elements = kDecayed + kRest;
    Seeded random(seed);
    for (std::int64_t i = 0; i < layout.trained_elements; ++i) {
      parameters.push_back(static_cast<float>(random.normal()));
      gradients.push_back(static_cast<float>(random.normal()));
    }
    exp_avg.assign(parameters.size(), 0.0f);
    exp_avg_sq.assign(parameters.size(), 0.0f);
    partials.assign(block_count(layout), 0.0);
  }
  Update update(Optimizer optimizer = Optimizer::kAdamW) {
    states = OptimizerStates(optimizer_kind(optimizer), layout, {}, {exp_avg.data(), exp_avg_sq.data()});
    return Update(layout, parameters.data(), {gradients.data()}, states, partials.data(), kernels_for(best_isa()));
  }
};

UpdateSettings settings(double max_grad_norm) {
  UpdateSettings s;
  s.learning_rate = 1e-2;
  s.weight_decay = 0.1;
  s.max_grad_norm = max_grad_norm;
  return s;
}

TEST(Update, CountsTheBlocksOfALayoutThatNoMachineHolds) {
  ParameterLayout layout;
  layout.runs = {{0, kUpdateBlockElements + 1, true}, {kUpdateBlockElements + 1, std::int64_t{1} << 55, false}};
  EXPECT_EQ(block_count(layout), 2u + (std::size_t{1} << 39));
  layout.runs.pop_back();
  EXPECT_EQ(block_count(layout), cut_into_blocks(layout).size());
}

// share 0: the average stays; 1: it is a copy; else the formula, in float64.
TEST(Update, AveragesTheNewWeights) {
  Threads threads(2, false);
  for (const double share : {0.0, 0.25, 1.0}) {
    Trained t(7);
    std::vector<float> averages(t.parameters.size(), 0.5f);
    Update update = t.update();
    update.keep_average(averages.data());
    UpdateSettings s = settings(1.0);
    s.average_share = share;
    update.run(threads, s);
    for (std::size_t i = 0; i < averages.size(); ++i) {
      const double value = static_cast<double>(t.parameters[i]), expected = 0.5 + share * (value - 0.5);
      if (share == 0.25) {
        ASSERT_NEAR(static_cast<double>(averages[i]), expected, 1.2e-7 * (std::abs(value) + 1.0)) << i;
      } else {
        ASSERT_EQ(averages[i], share == 1.0 ? t.parameters[i] : 0.5f) << i;
      }
    }
  }
}

TEST(Update, AveragesNothingWhereTheGradientIsNotFinite) {
  Trained t(8);
  std::vector<float> averages(t.parameters.size(), 0.5f);
  t.gradients[3] = std::numeric_limits<float>::infinity();
  Threads threads(1, false);
  Update update = t.update();
  update.keep_average(averages.data());
  UpdateSettings s = settings(1.0);
  s.average_share = 1.0;
  update.run(threads, s);
  EXPECT_EQ(averages, std::vector<float>(averages.size(), 0.5f));
}

TEST(Update, ClipsByTheGlobalNormAndDecaysTheDecayedRunsOnly) {
  Trained t(1);
  const Trained before(1);
  double squares = 0.0;
  for (const float g : t.gradients) squares += static_cast<double>(g) * static_cast<double>(g);
  Threads threads(2, false);
  Update update = t.update();
  EXPECT_NEAR(update.run(threads, settings(1.0)), std::sqrt(squares), 1e-9 * std::sqrt(squares));
  const double scale = 1.0 / (std::sqrt(squares) + 1e-6);
  for (std::size_t i = 0; i < t.parameters.size(); ++i) {
    // The first step of AdamW: both moments' corrections leave g / (|g| + epsilon).
    const double g = scale * static_cast<double>(before.gradients[i]);
    const double decay = static_cast<std::int64_t>(i) < kDecayed ? 1.0 - 1e-3 : 1.0;
    const double expected = static_cast<double>(before.parameters[i]) * decay - 1e-2 * g / (std::abs(g) + 1e-8);
    ASSERT_NEAR(static_cast<double>(t.parameters[i]), expected, 2e-6) << i;
  }
}

TEST(Update, AGroupHasItsOwnRateAndDecayAndTheGradientNormIsThatOfAll) {
  Trained t(6);
  t.layout.runs = {{0, 512, true, 0},
                   {512, kDecayed - 512, true, -1},
                   {kDecayed, 16, false, 1},
                   {kDecayed + 16, kRest - 16, false, -1}};
  t.partials.assign(block_count(t.layout), 0.0);
  const Trained before(6);
  const std::vector<GroupRule> rules = {{0.25, -1.0}, {3.0, 0.5}};  // the rule for all decays; a decay of its own
  UpdateSettings s = settings(1.0);
  s.groups = rules;
  double squares = 0.0;
  for (const float g : t.gradients) squares += static_cast<double>(g) * static_cast<double>(g);
  Threads threads(2, false);
  EXPECT_NEAR(t.update().run(threads, s), std::sqrt(squares), 1e-9 * std::sqrt(squares));
  const double scale = 1.0 / (std::sqrt(squares) + 1e-6);
  for (std::size_t i = 0; i < t.parameters.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i);
    const bool second = at >= kDecayed && at < kDecayed + 16;
    const double rate = 1e-2 * (at < 512 ? 0.25 : second ? 3.0 : 1.0);
    const double decay = second ? 0.5 : at < kDecayed ? 0.1 : 0.0;
    const double g = scale * static_cast<double>(before.gradients[i]);
    const double expected =
        static_cast<double>(before.parameters[i]) * (1.0 - rate * decay) - rate * g / (std::abs(g) + 1e-8);
    ASSERT_NEAR(static_cast<double>(t.parameters[i]), expected, 6e-6) << i;
  }
}

// Three tensors, the first of two blocks; the second is not decayed, the third is zero.
struct TrainedByLamb : Trained {
  static constexpr std::int64_t kEnds[] = {kDecayed, kDecayed + 50, kDecayed + kRest};

  explicit TrainedByLamb(std::uint64_t seed) : Trained(seed) {
    layout.runs = {{0, kDecayed, true}, {kDecayed, 50, false}, {kDecayed + 50, kRest - 50, true}};
    std::fill(parameters.begin() + kEnds[1], parameters.end(), 0.0f);
    partials.assign(Update::partials_count(layout, optimizer_kind(Optimizer::kLamb)), 0.0);
  }
  Update update() { return Trained::update(Optimizer::kLamb); }
};

// Two updates in float64, tensor by tensor (You et al. 2020, algorithm 2, with the clipping of FusedLAMB).
TEST(Update, LambMovesEachTensorByItsTrustRatio) {
  TrainedByLamb t(3);
  std::vector<double> p(t.parameters.begin(), t.parameters.end()), m(p.size()), v(p.size()), u(p.size());
  Threads threads(2, false);
  Update update = t.update();
  for (int step = 1; step <= 2; ++step) {
    const std::vector<float> g = t.gradients;
    double squares = 0.0;
    for (const float x : g) squares += static_cast<double>(x) * static_cast<double>(x);
    UpdateSettings s = settings(5.0);
    s.step = step;
    s.epsilon = 1e-6;
    EXPECT_NEAR(update.run(threads, s), std::sqrt(squares), 1e-6 * std::sqrt(squares));
    std::int64_t i = 0;
    for (std::size_t tensor = 0; tensor < 3; ++tensor) {
      const double decay = tensor == 1 ? 0.0 : 0.1;
      const std::int64_t first = i;
      double of_p = 0.0, of_u = 0.0;
      for (; i < TrainedByLamb::kEnds[tensor]; ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        const double clipped = static_cast<double>(g[at]) * 5.0 / (std::sqrt(squares) + 1e-6);
        m[at] = 0.9 * m[at] + 0.1 * clipped;
        v[at] = 0.999 * v[at] + 0.001 * clipped * clipped;
        const double corrected = v[at] / (1.0 - std::pow(0.999, step));
        u[at] = m[at] / (1.0 - std::pow(0.9, step)) / (std::sqrt(corrected) + 1e-6) + decay * p[at];
        of_p += p[at] * p[at];
        of_u += u[at] * u[at];
      }
      const double ratio = decay > 0.0 && of_p > 0.0 && of_u > 0.0 ? std::sqrt(of_p / of_u) : 1.0;
      for (i = first; i < TrainedByLamb::kEnds[tensor]; ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        p[at] -= 1e-2 * ratio * u[at];
        ASSERT_NEAR(static_cast<double>(t.parameters[at]), p[at], 3e-6) << "step " << step << ", element " << i;
      }
    }
    for (std::size_t at = 0; at < g.size(); ++at) t.gradients[at] = g[g.size() - 1 - at];
  }
}

TEST(Update, LambGivesTheSameBitsWithAnyNumberOfThreads) {
  TrainedByLamb one(2);
  Threads alone(1, false);
  one.update().run(alone, settings(1.0));
  for (const int count : {2, 3, 4}) {
    TrainedByLamb many(2);
    Threads threads(count, false);
    many.update().run(threads, settings(1.0));
    EXPECT_EQ(std::memcmp(one.parameters.data(), many.parameters.data(), one.parameters.size() * sizeof(float)), 0);
  }
}

TEST(Update, GivesTheSameBitsWithAnyNumberOfThreads) {
  Trained one(2);
  Threads alone(1, false);
  one.update().run(alone, settings(1.0));
  for (const int count : {2, 3, 4}) {
    Trained many(2);
    Threads threads(count, false);
    many.update().run(threads, settings(1.0));
    EXPECT_EQ(std::memcmp(one.parameters.data(), many.parameters.data(), one.parameters.size() * sizeof(float)), 0);
  }
}

TEST(Update, TakesTheGradientAsTheFactorTimesTheSum) {
  for (const double max_grad_norm : {0.0, 1.0, 1e9}) {
    Trained sum(5), gradient(5);
    for (float& g : gradient.gradients) g *= 0.25f;
    Threads threads(2, false);
    UpdateSettings s = settings(max_grad_norm);
    const double norm = gradient.update().run(threads, s);
    s.gradient_factor = 0.25;
    EXPECT_EQ(sum.update().run(threads, s), norm);
    EXPECT_EQ(sum.exp_avg, gradient.exp_avg);
    EXPECT_EQ(sum.parameters, gradient.parameters);
  }
}

TEST(Update, ChangesNothingWhereTheGradientIsNotFinite) {
  Trained t(3);
  const Trained before(3);
  t.gradients[70] = std::numeric_limits<float>::infinity();
  Threads threads(2, false);
  EXPECT_FALSE(std::isfinite(t.update().run(threads, settings(1.0))));
  EXPECT_EQ(t.parameters, before.parameters);
  EXPECT_EQ(t.exp_avg, before.exp_avg);
}

TEST(Update, FindsAParameterThatIsNotFiniteAnywhere) {
  for (const std::int64_t at : {std::int64_t{0}, kUpdateBlockElements, kDecayed, kDecayed + kRest - 1}) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Trained t(4);
      Threads threads(2, false);
      Update update = t.update();
      EXPECT_TRUE(update.parameters_are_finite(threads));
      t.parameters[static_cast<std::size_t>(at)] = value;
      EXPECT_FALSE(update.parameters_are_finite(threads)) << at;
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_update
