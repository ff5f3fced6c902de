// SPDX-License-Identifier: Apache-2.0
#include "src/train/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace bascule::test {
namespace {

// Printed by transformers.get_scheduler(kind, SGD(lr=2e-3), num_warmup_steps, num_training_steps=10).
void expect_rates(Scheduler kind, std::int64_t warmup, const std::vector<double>& expected) {
  const Schedule schedule{kind, 2e-3, warmup, 10};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_DOUBLE_EQ(schedule.at(static_cast<std::int64_t>(step)), expected[step]) << "step " << step;
  }
}

TEST(Schedule, LinearGivesTheReferencesRates) {
  expect_rates(Scheduler::kLinear, 0, {0.002, 0.0018, 0.0016, 0.0014, 0.0012, 0.001, 0.0008, 0.0006, 0.0004, 0.0002});
  expect_rates(Scheduler::kLinear, 3,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0017142857142857142, 0.0014285714285714286,
                0.0011428571428571427, 0.0008571428571428571, 0.0005714285714285714, 0.0002857142857142857});
}

TEST(Schedule, CosineGivesTheReferencesRates) {
  expect_rates(Scheduler::kCosine, 3,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001900968867902419, 0.0016234898018587336,
                0.0012225209339563144, 0.0007774790660436857, 0.0003765101981412665, 9.903113209758097e-05});
}

TEST(Schedule, ConstantIgnoresAWarmUpUnlessItIsNamed) {
  expect_rates(Scheduler::kConstant, 3, std::vector<double>(10, 0.002));
  expect_rates(Scheduler::kConstantWithWarmup, 3,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002});
}

TEST(Schedule, StaysAtItsEndInALongerRun) {
  for (const Scheduler kind : {Scheduler::kLinear, Scheduler::kCosine}) {
    const Schedule schedule{kind, 2e-3, 3, 10};
    for (const std::int64_t step : {10, 11, 17, 1000}) EXPECT_EQ(schedule.at(step), 0.0) << "step " << step;
  }
}

}  // namespace
}  // namespace bascule::test
