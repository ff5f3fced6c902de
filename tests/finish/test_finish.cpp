// SPDX-License-Identifier: Apache-2.0
#include "src/finish/finish.h"

#include <gtest/gtest.h>

#include "tests/sealed/short_run.h"

namespace bascule::test {
namespace {

// In a run of one process both figures are of the same updates.
TEST(MakeReport, TheThroughputOfTheWholeRunLeavesOutWhatThatOfTheProcessDoes) {
  const TemporaryFolder folder;
  ShortRun run(folder.path(), "max_steps = 5\nsave_steps = 2\nthroughput_warmup_steps = 2\n");
  ASSERT_TRUE(run->loop().run().ok());
  const TrainSummary train = make_report(*run, {}, {}).train;
  EXPECT_EQ(train.whole.processes, 1);
  EXPECT_EQ(train.whole.steps, 5);
  EXPECT_GT(train.samples_per_second, 0.0);
  EXPECT_EQ(train.whole.samples_per_second, train.samples_per_second);
  EXPECT_EQ(train.whole.steps_per_second, train.steps_per_second);
  EXPECT_NE(train.whole.samples_per_second, 40.0 / train.whole.seconds);
}

}  // namespace
}  // namespace bascule::test
