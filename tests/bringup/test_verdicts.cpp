// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/profile.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace bascule {
namespace {

BringUp with(std::vector<double> rounds, const TakenTime& taken = {}, bool more_is_better = true) {
  BringUp run;
  Figure figure;
  figure.item = "products";
  figure.name = "float32";
  figure.more_is_better = more_is_better;
  figure.rounds = std::move(rounds);
  figure.taken = taken;
  run.figures = {figure};
  return run;
}

TakenTime missing(double share) {
  TakenTime taken;
  taken.missing = share;
  return taken;
}

Verdict verdict_of(const BringUp& now, const BringUp& saved) { return judge(now, saved).front().verdict; }

const std::vector<double> kUsual = {98, 99, 100, 101, 102};

TEST(Verdicts, TheMedianOfAnEvenNumberOfRoundsLiesBetweenTheMiddleTwo) {
  Figure figure;
  figure.rounds = {4.0, 1.0, 8.0, 2.0};
  EXPECT_EQ(figure.median(), 3.0);
  figure.rounds = {4.0, 1.0, 8.0};
  EXPECT_EQ(figure.median(), 4.0);
}

TEST(Verdicts, TheSameFiguresAreOk) {
  EXPECT_EQ(verdict_of(with(kUsual), with(kUsual)), Verdict::kOk);
  EXPECT_EQ(verdict_of(with({95, 96, 97, 98, 99}), with(kUsual)), Verdict::kOk);
}

TEST(Verdicts, SlowerSaysHowMuch) {
  const FigureJudgement judgement = judge(with({78, 79, 80, 81, 82}), with(kUsual)).front();
  EXPECT_EQ(judgement.verdict, Verdict::kSlower);
  EXPECT_NEAR(judgement.change, -0.2, 1e-9);
  EXPECT_TRUE(judgement.causes.empty());
  // For times less is better.
  EXPECT_EQ(verdict_of(with({130, 131, 132}, {}, false), with({100, 101, 102}, {}, false)), Verdict::kSlower);
  EXPECT_NEAR(judge(with({200}, {}, false), with({100}, {}, false)).front().change, -0.5, 1e-9);
}

TEST(Verdicts, OneGoodRoundShowsThatTheMachineCanDoIt) {
  EXPECT_EQ(verdict_of(with({60, 61, 62, 63, 100}), with(kUsual)), Verdict::kOk);
}

TEST(Verdicts, Faster) {
  EXPECT_EQ(verdict_of(with({119, 120, 121}), with(kUsual)), Verdict::kFaster);
  EXPECT_EQ(verdict_of(with({101, 120, 121}), with(kUsual)), Verdict::kOk);
}

// One round of the profile that went as badly, or as well, shows that the machine does so of itself.
TEST(Verdicts, WithinTheRangeOfTheProfileAFigureIsOk) {
  EXPECT_EQ(verdict_of(with({70, 71, 72}), with({71, 99, 100, 101, 102})), Verdict::kOk);
  EXPECT_EQ(verdict_of(with({70, 71, 72}), with({73, 99, 100, 101, 102})), Verdict::kSlower);
  EXPECT_EQ(verdict_of(with({128, 129, 130}), with({98, 99, 100, 101, 129})), Verdict::kOk);
  EXPECT_EQ(verdict_of(with({128, 129, 130}), with({98, 99, 100, 101, 127})), Verdict::kFaster);
  // For times less is better.
  EXPECT_EQ(verdict_of(with({130, 131}, {}, false), with({99, 100, 131}, {}, false)), Verdict::kOk);
}

TEST(Verdicts, ADisturbedFigureHasACauseAndASlowerOneMayHaveNone) {
  const FigureJudgement disturbed = judge(with({60, 61, 62}, missing(0.4)), with(kUsual)).front();
  ASSERT_EQ(disturbed.causes.size(), 1u);
  EXPECT_EQ(disturbed.causes[0].name, "lost time");
  EXPECT_EQ(disturbed.causes[0].evidence, "40 % of its time was taken; the kernel does not count by whom");
  EXPECT_TRUE(judge(with({60, 61, 62}), with(kUsual)).front().causes.empty());
}

TEST(Verdicts, AFigureWhoseTimeOthersTookIsDisturbed) {
  EXPECT_EQ(verdict_of(with({60, 61, 62}, missing(0.4)), with(kUsual)), Verdict::kDisturbed);
  EXPECT_EQ(verdict_of(with({99, 100, 101}, missing(0.4)), with(kUsual)), Verdict::kOk);
  EXPECT_EQ(verdict_of(with({60, 61, 62}, missing(0.4)), with(kUsual, missing(0.4))), Verdict::kSlower);
}

TEST(Verdicts, AClockThatMovesMovesWhatFollowsIt) {
  const auto beside_clock = [](BringUp run, std::vector<double> rounds, const TakenTime& taken = {}) {
    Figure clock;
    clock.item = "clock";
    clock.name = "operations in a row";
    clock.more_is_better = true;
    clock.rounds = std::move(rounds);
    clock.taken = taken;
    run.figures.push_back(clock);
    return run;
  };
  const std::vector<double> steady = {2.99, 3.0, 3.01}, moving = {2.7, 3.0, 3.3};  // half of its range: a tenth
  const BringUp now = with({84, 85, 86}), saved = with(kUsual);
  EXPECT_EQ(verdict_of(beside_clock(now, steady), beside_clock(saved, steady)), Verdict::kSlower);
  EXPECT_EQ(verdict_of(beside_clock(now, moving), beside_clock(saved, steady)), Verdict::kOk);
  EXPECT_EQ(verdict_of(beside_clock(now, steady), beside_clock(saved, moving)), Verdict::kOk);
  EXPECT_EQ(verdict_of(beside_clock(now, moving, missing(0.1)), beside_clock(saved, steady)), Verdict::kSlower)
      << "others took time from the clock's rounds: they do not show how it moves";
  EXPECT_EQ(verdict_of(beside_clock(with({78, 79, 80}), moving), beside_clock(saved, steady)), Verdict::kSlower);
}

// Of a clock ten times as fast, too, as a busy machine measures it: from some rounds others take nearly all the time.
TEST(Verdicts, RoundsThatOthersTookDoNotHideASlowerClock) {
  const auto clock = [](std::vector<double> rounds, const TakenTime& taken) {
    BringUp run = with(std::move(rounds), taken);
    run.figures[0].item = "clock";
    return run;
  };
  const BringUp saved = clock({30}, {});
  EXPECT_EQ(verdict_of(clock({3.0, 0.3, 0.4}, {}), saved), Verdict::kSlower);
  EXPECT_EQ(verdict_of(clock({3.0, 0.3, 0.4}, missing(0.6)), saved), Verdict::kDisturbed);
  EXPECT_EQ(verdict_of(clock({3.0, 2.4, 2.5}, missing(0.2)), clock({3.3}, {})), Verdict::kDisturbed);
}

TEST(Verdicts, AnAmountIsNotDisturbed) {
  BringUp now = with({1}, missing(0.4)), saved = with({64});
  now.figures[0].unit = saved.figures[0].unit = "MiB";
  EXPECT_EQ(verdict_of(now, saved), Verdict::kSlower);
}

TEST(Verdicts, AQuotaIsNoDisturbance) {
  TakenTime taken = missing(0.4);
  taken.throttled = 0.38;
  EXPECT_EQ(verdict_of(with({60, 61, 62}, taken), with(kUsual)), Verdict::kSlower);
}

TEST(Verdicts, WhatTheProfileLacksIsUnknown) {
  EXPECT_EQ(verdict_of(with(kUsual), BringUp{}), Verdict::kUnknown);
  EXPECT_EQ(verdict_of(with({}), with(kUsual)), Verdict::kUnknown);
}

TEST(Verdicts, AWrongCoreOrASlowerFigureIsNotAsRecorded) {
  const BringUp saved = with(kUsual);
  BringUp now = with(kUsual);
  EXPECT_TRUE(is_as_recorded(now, {}));
  EXPECT_TRUE(is_as_recorded(now, judge(now, saved)));
  EXPECT_TRUE(is_as_recorded(now, judge(with({60, 61, 62}, missing(0.4)), saved)));  // disturbed
  EXPECT_FALSE(is_as_recorded(now, judge(with({60, 61, 62}), saved)));
  now.bits.none_as_recorded = true;
  EXPECT_FALSE(is_as_recorded(now, {}));
  now.bits.none_as_recorded = false;
  now.bits.wrong = {{1, "float32 product, forward", 1}};
  EXPECT_FALSE(is_as_recorded(now, {}));
}

TEST(Verdicts, EachItemHasItsTolerance) {
  const std::pair<const char*, double> tolerances[] = {
      {"clock", 4},      {"products", 8}, {"jpeg", 8},   {"kernels", 25}, {"memory", 25},
      {"allreduce", 25}, {"latency", 30}, {"pages", 50}, {"disk", 60},    {"another", 25}};
  for (const auto& [item, percent] : tolerances) {
    const auto verdict_after = [&, name = item](double change) {
      BringUp now = with({100.0 + change}), saved = with({100.0});
      now.figures[0].item = saved.figures[0].item = name;
      return verdict_of(now, saved);
    };
    EXPECT_EQ(verdict_after(-percent + 1), Verdict::kOk) << item;
    EXPECT_EQ(verdict_after(-percent - 1), Verdict::kSlower) << item;
    EXPECT_EQ(verdict_after(percent - 1), Verdict::kOk) << item;
    EXPECT_EQ(verdict_after(percent + 1), Verdict::kFaster) << item;
  }
}

TEST(Verdicts, WhatWasNothingInTheProfileCanOnlyBeFaster) {
  EXPECT_EQ(verdict_of(with({1}), with({0})), Verdict::kFaster);
  EXPECT_EQ(verdict_of(with({0}), with({0})), Verdict::kOk);
}

TEST(Verdicts, LessThanATwentiethOfTheTimeIsNoDisturbance) {
  EXPECT_EQ(verdict_of(with({60, 61, 62}, missing(0.04)), with(kUsual)), Verdict::kSlower);
  EXPECT_EQ(verdict_of(with({60, 61, 62}, missing(0.06)), with(kUsual)), Verdict::kDisturbed);
}

TEST(Verdicts, TheShareOfTakenTimeIsTheMostThatIsExplained) {
  TakenTime taken;
  taken.delay = 0.25;
  taken.throttled = 0.125;
  taken.stolen = 0.5;
  taken.missing = 0.625;
  taken.others = taken.siblings = 0.9;
  EXPECT_EQ(taken.share(), 0.75);  // waiting and stolen
  taken.delay = 0.0;
  EXPECT_EQ(taken.share(), 0.625);  // missing; throttled and stolen as well
  taken.missing = 0.0;
  taken.throttled = 0.25;
  EXPECT_EQ(taken.share(), 0.75);
  taken.delay = 0.875;
  EXPECT_EQ(taken.share(), 1.0);  // not more, though both counted an instant
}

}  // namespace
}  // namespace bascule
