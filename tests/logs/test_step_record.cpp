// SPDX-License-Identifier: Apache-2.0
#include "src/logs/step_record.h"

#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace bascule {
namespace {

StepRecord numbered(std::int64_t step) {
  StepRecord record;
  record.global_step = step;
  return record;
}

TEST(RecordLog, KeepsEveryRecordWhileThereIsRoom) {
  std::vector<StepRecord> memory(planned_records(100, 10, kMaxStepRecords));
  RecordLog<StepRecord> log{Span<StepRecord>(memory)};
  for (std::int64_t step = 10; step <= 100; step += 10) log.append(numbered(step));
  ASSERT_EQ(log.records().size(), 10u);
  EXPECT_EQ(log.records()[0].global_step, 10);
  EXPECT_EQ(log.records()[9].global_step, 100);
  EXPECT_EQ(log.stride(), 1u);
}

TEST(RecordLog, ThinsToEvenSpacingAndAlwaysEndsWithTheNewest) {
  for (const std::size_t capacity : {2u, 8u, 9u, 64u}) {
    std::vector<StepRecord> memory(capacity);
    RecordLog<StepRecord> log{Span<StepRecord>(memory)};
    for (std::int64_t step = 0; step < 1000; ++step) {
      log.append(numbered(step));
      const Span<const StepRecord> kept = log.records();
      ASSERT_LE(kept.size(), capacity);
      ASSERT_EQ(kept[kept.size() - 1].global_step, step);
      for (std::size_t i = 0; i + 1 < kept.size(); ++i) {
        ASSERT_EQ(kept[i].global_step, static_cast<std::int64_t>(i * log.stride())) << capacity << " " << step;
      }
    }
    EXPECT_GE(log.records().size() * 2 + 2, capacity);
  }
}

TEST(RecordLog, ARestoredLogGoesOnAsIfNeverInterrupted) {
  for (const std::int64_t stop : {1, 7, 8, 9, 30, 100}) {
    std::vector<StepRecord> first_memory(8);
    std::vector<StepRecord> second_memory(8);
    RecordLog<StepRecord> whole{Span<StepRecord>(first_memory)};
    for (std::int64_t step = 0; step < stop; ++step) whole.append(numbered(step));
    RecordLog<StepRecord> resumed{Span<StepRecord>(second_memory)};
    ASSERT_EQ(RecordLog<StepRecord>::kept(whole.appended(), whole.stride()), whole.records().size());
    ASSERT_TRUE(resumed.restore(whole.records(), whole.appended(), whole.stride()));
    for (std::int64_t step = stop; step < 130; ++step) {
      whole.append(numbered(step));
      resumed.append(numbered(step));
      ASSERT_EQ(resumed.records().size(), whole.records().size());
      for (std::size_t i = 0; i < whole.records().size(); ++i) {
        ASSERT_EQ(resumed.records()[i].global_step, whole.records()[i].global_step);
      }
    }
  }
}

TEST(RecordLog, ThinsASavedLogThatIsLargerThanItself) {
  std::vector<StepRecord> memory(4), saved(6);
  for (std::size_t i = 0; i < saved.size(); ++i) saved[i].global_step = static_cast<std::int64_t>(i);
  RecordLog<StepRecord> log{Span<StepRecord>(memory)};
  ASSERT_TRUE(log.restore(Span<const StepRecord>(saved), 6, 1));
  ASSERT_EQ(log.records().size(), 4u);  // 0, 2, 4 and the newest
  EXPECT_EQ(log.records()[2].global_step, 4);
  EXPECT_EQ(log.records()[3].global_step, 5);
  EXPECT_EQ(log.stride(), 2u);
}

TEST(RecordLog, RefusesWhatIsNoLog) {
  std::vector<StepRecord> memory(4);
  const std::vector<StepRecord> saved(5);
  RecordLog<StepRecord> log{Span<StepRecord>(memory)};
  EXPECT_FALSE(log.restore(Span<const StepRecord>(saved.data(), 4), 4, 0));
  EXPECT_FALSE(log.restore(Span<const StepRecord>(saved.data(), 4), 3, 1));
  EXPECT_EQ(log.records().size(), 0u);
}

TEST(PlannedRecords, AreEnoughForTheRunAndNeverMoreThanTheLimit) {
  EXPECT_GE(planned_records(1225, 10, 4096), 123u);
  EXPECT_LE(planned_records(1225, 10, 4096), 126u);
  EXPECT_EQ(planned_records(1000000000, 1, 4096), 4096u);
  EXPECT_EQ(planned_records(0, 0, 4096), 2u);
  EXPECT_EQ(planned_records(100, 10, 5), 4u);
  EXPECT_EQ(planned_records(1225, 10, 4096), 124u);
  EXPECT_EQ(planned_records(9, 1, 4096), 10u);   // 11, made even
  EXPECT_EQ(planned_records(8, 1, 4096), 10u);   // one for each, one at the end, and one more
  EXPECT_EQ(planned_records(100, 0, 4096), 2u);  // no interval
  EXPECT_EQ(planned_records(-5, 1, 4096), 2u);
  EXPECT_EQ(planned_records(100, 1, 1), 2u);
}

TEST(EvaluationRecord, StartsWithoutMetrics) {
  const EvaluationRecord record;
  for (const double value : record.metric) EXPECT_TRUE(std::isnan(value));
}

TEST(StepTotals, SumWhatTheRecordsSay) {
  StepRecord record;
  record.steps = 2;
  record.samples = 16;
  record.wall_seconds = 0.5;
  record.seconds[static_cast<int>(StepPhase::kBackward)] = 0.25;
  StepTotals totals;
  totals.add(record);
  totals.add(record);
  for (int phase = 0; phase < kStepPhases; ++phase)
    EXPECT_EQ(totals.seconds[phase], phase == static_cast<int>(StepPhase::kBackward) ? 0.5 : 0.0);
  record.seconds[kStepPhases - 1] = 8.0;
  StepTotals last;
  last.add(record);
  EXPECT_EQ(last.seconds[kStepPhases - 1], 8.0);
  EXPECT_EQ(totals.steps, 4);
  EXPECT_EQ(totals.samples, 32);
  EXPECT_DOUBLE_EQ(totals.wall_seconds, 1.0);
  EXPECT_DOUBLE_EQ(totals.seconds[static_cast<int>(StepPhase::kBackward)], 0.5);
}

TEST(StepRecord, ItsPhasesAndSplitsHaveNames) {
  std::vector<std::string> phases;
  for (int phase = 0; phase < kStepPhases; ++phase) phases.push_back(step_phase_name(static_cast<StepPhase>(phase)));
  EXPECT_EQ(phases, (std::vector<std::string>{"waiting for data", "forward", "backward", "reduction", "update"}));
  EXPECT_STREQ(split_name(Split::kTrain), "train");
  EXPECT_STREQ(split_name(Split::kValidation), "validation");
  EXPECT_STREQ(split_name(Split::kTest), "test");
  EXPECT_STREQ(figure_prefix(Split::kValidation, false), "eval");
  EXPECT_STREQ(figure_prefix(Split::kValidation, true), "eval_ema");
  EXPECT_STREQ(figure_prefix(Split::kTest, false), "test");
  EXPECT_STREQ(figure_prefix(Split::kTest, true), "test_ema");
}

template <typename Record, typename... Others>
std::string figures_of(const Record& record, const Others&... others) {
  std::string text;
  visit_figures(record, others...,
                [&](const char* key, auto value) { text += std::string(key) + "=" + std::to_string(value) + " "; });
  return text;
}

TEST(VisitFigures, NamesEachInOrderAndLeavesOutWhatIsAbsent) {
  StepRecord step;
  step.epoch = 1;
  step.loss = 2;
  step.grad_norm = 3;
  step.learning_rate = 4;
  step.samples_per_second = 5;
  EXPECT_EQ(figures_of(step),
            "epoch=1.000000 loss=2.000000 grad_norm=3.000000 learning_rate=4.000000 samples_per_second=5.000000 ");
  const Metric metrics[] = {{"b", "B", 1, false}, {"a", "A", 0, false}, {"c", "C", kMetricSlots - 1, false}};
  EvaluationRecord evaluation;
  evaluation.epoch = 1;
  evaluation.seconds = 6;
  evaluation.samples = 7;
  evaluation[metrics[1]] = 8;
  evaluation[metrics[2]] = 9;
  const Metrics all(metrics, std::size(metrics));
  EXPECT_EQ(figures_of(evaluation, all),
            "epoch=1.000000 eval_loss=0.000000 eval_runtime=6.000000 eval_samples=7 eval_a=8.000000 eval_c=9.000000 ");
  evaluation.loss = std::nan("");
  evaluation.averaged = 1;
  evaluation.split = Split::kTest;
  EXPECT_EQ(figures_of(evaluation, all),
            "epoch=1.000000 test_ema_runtime=6.000000 test_ema_samples=7 test_ema_a=8.000000 test_ema_c=9.000000 ");
}

TEST(RecordLog, AnEmptyLogIsRestoredEmpty) {
  std::vector<StepRecord> memory(4), saved(2);
  RecordLog<StepRecord> log{Span<StepRecord>(memory)};
  EXPECT_FALSE(log.restore(Span<const StepRecord>(), 1, 1));
  EXPECT_FALSE(log.restore(Span<const StepRecord>(saved), 0, 1));
  ASSERT_TRUE(log.restore(Span<const StepRecord>(), 0, 1));
  EXPECT_EQ(log.appended(), 0u);
  log.append(numbered(3));
  EXPECT_EQ(log.records()[0].global_step, 3);
  EXPECT_EQ(log.appended(), 1u);
}

}  // namespace
}  // namespace bascule
