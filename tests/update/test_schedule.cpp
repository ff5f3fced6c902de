// SPDX-License-Identifier: Apache-2.0
#include "src/update/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace bascule::test::test_schedule {
namespace {

// Printed by transformers.get_scheduler(kind, SGD(lr=2e-3), num_warmup_steps, 10, scheduler_specific_kwargs), version
// 5.23: get_last_lr()[0] before each step.
void expect_rates(const Schedule& schedule, const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_DOUBLE_EQ(schedule.at(static_cast<std::int64_t>(step)), expected[step]) << "step " << step;
  }
}

Schedule schedule_of(Scheduler kind, std::int64_t warmup) { return {kind, 2e-3, warmup, 10}; }

TEST(Schedule, LinearGivesTheReferencesRates) {
  expect_rates(schedule_of(Scheduler::kLinear, 0),
               {0.002, 0.0018, 0.0016, 0.0014, 0.0012, 0.001, 0.0008, 0.0006, 0.0004, 0.0002});
  expect_rates(schedule_of(Scheduler::kLinear, 3),
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0017142857142857142, 0.0014285714285714286,
                0.0011428571428571427, 0.0008571428571428571, 0.0005714285714285714, 0.0002857142857142857});
}

TEST(Schedule, CosineGivesTheReferencesRates) {
  expect_rates(schedule_of(Scheduler::kCosine, 3),
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001900968867902419, 0.0016234898018587336,
                0.0012225209339563144, 0.0007774790660436857, 0.0003765101981412665, 9.903113209758097e-05});
}

TEST(Schedule, ConstantIgnoresAWarmUpUnlessItIsNamed) {
  expect_rates(schedule_of(Scheduler::kConstant, 3), std::vector<double>(10, 0.002));
  expect_rates(schedule_of(Scheduler::kConstantWithWarmup, 3),
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002});
}

TEST(Schedule, StaysAtItsEndInALongerRun) {
  for (const Scheduler kind : {Scheduler::kLinear, Scheduler::kCosine}) {
    const Schedule schedule{kind, 2e-3, 3, 10};
    for (const std::int64_t step : {10, 11, 17, 1000}) EXPECT_EQ(schedule.at(step), 0.0) << "step " << step;
  }
}

TEST(Schedule, AWarmUpMayBeginAboveZero) {
  Schedule schedule = schedule_of(Scheduler::kLinear, 3);
  schedule.start_ratio = 0.1;  // 2e-3 (0.1 + 0.9 s / 3)
  expect_rates(schedule, {0.0002, 0.0008, 0.0014, 0.002});
}

// lr ((s + 1) / T / w) below w, then lr (1 - (s + 1) / T)^power, with T = 10.
TEST(Schedule, PolynomialJumpGivesNvidiasRates) {
  Schedule schedule = schedule_of(Scheduler::kPolynomialJump, 3);
  schedule.warmup_share = 0.28;
  schedule.power = 0.5;
  const std::vector<double> half = {0.0007142857142857143,
                                    0.0014285714285714286,
                                    0.001673320053068151,
                                    0.0015491933384829668,
                                    0.0014142135623730952,
                                    0.0012649110640673518,
                                    0.0010954451150103324,
                                    0.0008944271909999158,
                                    0.0006324555320336758,
                                    0.0,
                                    0.0};
  for (std::size_t step = 0; step < half.size(); ++step)
    EXPECT_NEAR(schedule.at(static_cast<std::int64_t>(step)), half[step], 1e-17) << step;
  schedule.warmup_share = 0.3;
  schedule.power = 1.0;
  EXPECT_NEAR(schedule.at(1), 0.0013333333333333335, 1e-17);
  EXPECT_NEAR(schedule.at(2), 0.0014, 1e-17);
  EXPECT_NEAR(schedule.at(8), 0.0002, 1e-17);
}

TEST(Schedule, PolynomialGivesTheReferencesRatesAndStaysAtItsEnd) {
  Schedule schedule = schedule_of(Scheduler::kPolynomial, 0);
  expect_rates(schedule, {0.002, 0.0018000100000000003, 0.0016000200000000004, 0.0014000299999999998, 0.00120004,
                          0.0010000500000000002, 0.0008000600000000001, 0.0006000700000000001, 0.00040008, 0.00020009});
  schedule.warmup_steps = 3;
  schedule.end = 1e-4;
  schedule.power = 2.0;
  expect_rates(schedule,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001495918367346939, 0.0010693877551020408,
                0.0007204081632653061, 0.00044897959183673474, 0.0002551020408163265, 0.00013877551020408167});
  schedule.power = 0.5;
  expect_rates(schedule, {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001859058189567848,
                          0.0017057930839841815, 0.0015362649974350634, 0.0013438419743451568, 0.0011155927192672127,
                          0.000818132498717532, 1e-4, 1e-4, 1e-4});
}

TEST(Schedule, CosineWithRestartsGivesTheReferencesRates) {
  Schedule schedule = schedule_of(Scheduler::kCosineWithRestarts, 3);
  expect_rates(schedule,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001900968867902419, 0.0016234898018587336,
                0.0012225209339563144, 0.0007774790660436857, 0.0003765101981412665, 9.903113209758097e-05, 0.0});
  schedule.warmup_steps = 2;
  schedule.cycles = 3;
  expect_rates(schedule, {0.0, 0.001, 0.002, 0.00138268343236509, 0.00029289321881345256, 0.0019238795325112869, 0.001,
                          7.612046748871326e-05, 0.0017071067811865474, 0.0006173165676349102});
}

TEST(Schedule, InverseSqrtGivesTheReferencesRates) {
  Schedule schedule = schedule_of(Scheduler::kInverseSqrt, 0);
  expect_rates(schedule, {0.002, 0.0019999000074993755, 0.001999800029995001, 0.0019997000674831294,
                          0.0019996001199600144, 0.001999500187421909, 0.001999400269865071, 0.0019993003672857564,
                          0.001999200479680224, 0.0019991006070447337});
  schedule.warmup_steps = 3;
  expect_rates(schedule,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0017320508075688774, 0.0015491933384829668,
                0.001414213562373095, 0.001309307341415954, 0.001224744871391589, 0.0011547005383792518});
  schedule.timescale = 5;
  expect_rates(schedule,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001825741858350554, 0.0016903085094570332,
                0.0015811388300841895, 0.00149071198499986, 0.001414213562373095, 0.0013483997249264842});
}

TEST(Schedule, CosineWithMinLrGivesTheReferencesRates) {
  Schedule schedule = schedule_of(Scheduler::kCosineWithMinLr, 0);
  schedule.min_ratio = 0.25;
  expect_rates(schedule,
               {0.002, 0.0019632923872213654, 0.0018567627457812105, 0.001690838939219355, 0.0014817627457812106,
                0.00125, 0.0010182372542187896, 0.0008091610607806452, 0.0006432372542187895, 0.0005367076127786349});
  schedule.warmup_steps = 3;
  schedule.min_ratio = 0.1;
  expect_rates(schedule,
               {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019108719811121771, 0.0016611408216728604,
                0.001300268840560683, 0.0008997311594393172, 0.0005388591783271399, 0.00028912801888782293});
}

}  // namespace
}  // namespace bascule::test::test_schedule
