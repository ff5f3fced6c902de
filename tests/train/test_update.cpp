// SPDX-License-Identifier: Apache-2.0
#include "src/train/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/table.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

// Two runs of parameters, one decayed; the first is longer than a block.
constexpr std::int64_t kDecayed = Update::kBlock + 48, kRest = 80;

struct Trained {
  ParameterLayout layout;
  std::vector<float> parameters, gradients, exp_avg, exp_avg_sq;
  std::vector<double> partials;

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
    partials.assign(Update::block_count(layout), 0.0);
  }
  Update update() {
    return Update(layout, parameters.data(), {gradients.data()}, exp_avg.data(), exp_avg_sq.data(), partials.data(),
                  kernels_for(best_isa()));
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
  layout.runs = {{0, Update::kBlock + 1, true}, {Update::kBlock + 1, std::int64_t{1} << 55, false}};
  EXPECT_EQ(Update::block_count(layout), 2u + (std::size_t{1} << 39));
  layout.runs.pop_back();
  EXPECT_EQ(Update::block_count(layout), Update::cut(layout).size());
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
  t.partials.assign(Update::block_count(t.layout), 0.0);
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
  for (const std::int64_t at : {std::int64_t{0}, Update::kBlock, kDecayed, kDecayed + kRest - 1}) {
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
}  // namespace bascule::test
