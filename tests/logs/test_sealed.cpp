// SPDX-License-Identifier: Apache-2.0
// The parts of the report that run after the seal must not allocate.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/logs/progress.h"
#include "src/logs/step_record.h"
#include "src/logs/tensorboard.h"
#include "tests/logs/sample_metrics.h"
#include "tests/support/count_allocations.h"

namespace bascule {
namespace {

TEST(SealedReport, LoggingAStepAllocatesNothing) {
  const std::string folder = testing::TempDir() + "bascule_sealed";
  std::filesystem::remove_all(folder);
  std::vector<StepRecord> memory(4);
  RecordLog<StepRecord> log{Span<StepRecord>(memory)};
  TensorBoardWriter events = TensorBoardWriter::open(folder, {1700000000, "host", 1});
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(nowhere, 0);
  Progress bar(nowhere, true, 100);
  Progress lines(nowhere, false, 80);
  EvaluationRecord evaluation;
  evaluation.loss = 0.5;
  evaluation[test::kAccuracy] = 0.75;

  const Metrics metrics{test::kOfWords, std::size(test::kOfWords)};
  const std::int64_t before = test::allocations();
  bool written = true;
  bar.begin("train", 0, 100, 0.0);
  lines.begin("train", 0, 100, 0.0);
  for (int step = 1; step <= 100; ++step) {
    StepRecord record;
    record.global_step = step;
    record.steps = 1;
    record.loss = 1e-30 * step;
    record.wall_seconds = 1e9;
    log.append(record);
    written = written && events.step(record, 1e9 + step).ok();
    written = written && events.evaluation(evaluation, metrics, 1e9 + step).ok();
    written = written && events.scalar("loader/wait", 0.1, step, 1e9).ok();
    for (Progress* progress : {&bar, &lines}) {
      progress->step({step, 0.5, 0.25, 1e300}, step);
      progress->record(record);
      progress->evaluation(evaluation, metrics);
      progress->note("a line of its own");
    }
  }
  bar.end(101.0);
  lines.end(101.0);
  written = written && events.sync().ok();
  EXPECT_EQ(test::allocations(), before);
  EXPECT_TRUE(written);
  ::close(nowhere);
}

}  // namespace
}  // namespace bascule
