// SPDX-License-Identifier: Apache-2.0
#include "src/logs/step_record.h"

#include <cmath>
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
  EXPECT_EQ(planned_records(100, 10, 5) % 2, 0u);
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
  EXPECT_EQ(totals.steps, 4);
  EXPECT_EQ(totals.samples, 32);
  EXPECT_DOUBLE_EQ(totals.wall_seconds, 1.0);
  EXPECT_DOUBLE_EQ(totals.seconds[static_cast<int>(StepPhase::kBackward)], 0.5);
}

}  // namespace
}  // namespace bascule
