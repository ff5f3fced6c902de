// SPDX-License-Identifier: Apache-2.0
#include "src/finish/judge_repeat.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

constexpr char kOne[] = "3ff0000000000000", kTwo[] = "4000000000000000";  // the bits of these numbers

// Logged after updates 2, 4 and 5, evaluated after 5.
RunRecord finished() {
  RunRecord record;
  record.steps = {{2, kTwo, kOne}, {4, kOne, kOne}, {5, kOne, kTwo}};
  record.evaluations = {{"validation", 5, kOne}, {"test", 5, kTwo}};
  record.results = {{"model.safetensors", "aa"}, {"ema/model.safetensors", "bb"}};
  record.train_loss = 2.0;
  return record;
}

TEST(JudgeRepeat, TheSameRecordHasEqualBits) {
  const RepeatJudgement judgement = judge_repeat(finished(), finished());
  EXPECT_TRUE(judgement.has_equal_bits);
  EXPECT_TRUE(judgement.has_equal_figures);
  EXPECT_EQ(judgement.first_difference, "");
  EXPECT_EQ(judgement.intervals, 3u);
  EXPECT_EQ(judgement.evaluations, 2u);
}

TEST(JudgeRepeat, AResultFileWithOtherContentIsNamed) {
  RunRecord now = finished();
  now.results[1].sha256 = "cc";
  const RepeatJudgement judgement = judge_repeat(finished(), now);
  EXPECT_FALSE(judgement.has_equal_bits);
  EXPECT_EQ(judgement.first_difference, "ema/model.safetensors: its content differs");
  EXPECT_EQ(judgement.intervals, 3u);  // all that was logged is equal
}

TEST(JudgeRepeat, AResultFileThatTheRepetitionLacksDiffers) {
  RunRecord now = finished();
  now.results.erase(now.results.begin());
  EXPECT_EQ(judge_repeat(finished(), now).first_difference, "model.safetensors: its content differs");
  now = finished();
  now.results[0].path = "model-00001-of-00002.safetensors";  // the same content under another name
  EXPECT_EQ(judge_repeat(finished(), now).first_difference, "model.safetensors: its content differs");
}

TEST(JudgeRepeat, TheFirstUpdateThatDiffersComesBeforeEvaluationsAndFiles) {
  RunRecord now = finished();
  now.results[0].sha256 = "cc";
  now.evaluations[0].loss = kTwo;
  EXPECT_EQ(judge_repeat(finished(), now).first_difference, "validation after update 5: the loss is 2, was 1");
  now.steps[2].norm = kOne;
  EXPECT_EQ(judge_repeat(finished(), now).first_difference, "update 5: the gradient norm is 1, was 2");
  now.steps[1].loss = kTwo;
  EXPECT_EQ(judge_repeat(finished(), now).first_difference, "one of updates 3 to 4: the mean loss is 2, was 1");
}

// A run that was interrupted logs an interval of its own there.
TEST(JudgeRepeat, IntervalsThatOnlyOneRunLoggedAreNotCompared) {
  RunRecord now = finished();
  now.steps = {{2, kTwo, kOne}, {3, kTwo, kTwo}, {4, kTwo, kTwo}, {5, kOne, kTwo}};
  const RepeatJudgement judgement = judge_repeat(finished(), now);
  EXPECT_TRUE(judgement.has_equal_bits);
  EXPECT_EQ(judgement.intervals, 2u);
}

TEST(JudgeRepeat, FiguresAreEqualWithinOnePercentOfTheRecordedLoss) {
  for (const auto& [loss, is_equal] : {std::make_pair(2.019, true), {1.981, true}, {2.021, false}, {1.979, false}}) {
    RunRecord now = finished();
    now.train_loss = loss;
    now.steps[0].loss = kOne;
    const RepeatJudgement judgement = judge_repeat(finished(), now);
    EXPECT_FALSE(judgement.has_equal_bits);
    EXPECT_EQ(judgement.has_equal_figures, is_equal) << loss;
    EXPECT_EQ(judgement.loss, loss);
    EXPECT_EQ(judgement.loss_then, 2.0);
  }
}

}  // namespace
}  // namespace bascule
