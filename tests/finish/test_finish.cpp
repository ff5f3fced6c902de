// SPDX-License-Identifier: Apache-2.0
#include "src/finish/finish.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/seal/short_run.h"
#include "tests/support/files.h"

namespace bascule::test {
namespace {

// In a run of one process both figures are of the same updates.
TEST(MakeReport, TheThroughputOfTheWholeRunLeavesOutWhatThatOfTheProcessDoes) {
  const TemporaryFolder folder;
  ShortRun run(folder.path(), "max_steps = 5\nsave_steps = 2\nthroughput_warmup_steps = 1\n");
  ASSERT_TRUE(run->loop().run().ok());
  const TrainSummary train = make_report(*run, {}, {}).train;
  EXPECT_EQ(train.whole.processes, 1);
  EXPECT_EQ(train.whole.steps, 5);
  EXPECT_GT(train.samples_per_second, 0.0);
  EXPECT_FALSE(train.counts_warmup);
  EXPECT_EQ(train.whole.samples_per_second, train.samples_per_second);
  EXPECT_EQ(train.whole.steps_per_second, train.steps_per_second);
  EXPECT_NE(train.whole.samples_per_second, 40.0 / train.whole.seconds);
}

// No update follows the warm-up: the throughput is that of all updates, and of the loader nothing is known.
TEST(MakeReport, ALoaderThatWasNotMeasuredHasNoRate) {
  const TemporaryFolder folder;
  ShortRun run(folder.path(), "max_steps = 2\nsave_strategy = \"no\"\nthroughput_warmup_steps = 2\n");
  ASSERT_TRUE(run->loop().run().ok());
  const Report report = make_report(*run, {}, {});
  EXPECT_GT(report.train.samples_per_second, 0.0);
  EXPECT_TRUE(std::isnan(report.loader.could_deliver_samples_per_second));
}

// The demo's judge writes embeddings, and its run no predictions.
TEST(WriteJudged, LeavesNoFilesThatAnEarlierRunHasJudged) {
  const TemporaryFolder folder;
  ShortRun run(folder.path(), "max_steps = 1\nsave_strategy = \"no\"\n");
  const std::string path = run.folder() + "/";
  const std::string names[] = {"embeddings.safetensors", "predictions.jsonl", "generated_predictions.txt", "other.txt"};
  for (const std::string& name : names) std::ofstream(path + name) << "of an earlier run";
  ASSERT_TRUE(run->loop().run().ok());
  ASSERT_TRUE(run->loop().evaluate(Split::kValidation).ok());
  Report report = make_report(*run, {}, {});
  EXPECT_TRUE(report.train.counts_warmup) << "there was nothing behind it";
  write_judged(*run, &report);
  const auto is_there = [&](const std::string& name) { return std::filesystem::exists(path + name); };
  EXPECT_TRUE(is_there("embeddings.safetensors"));
  EXPECT_NE(read_file(path + "embeddings.safetensors"), "of an earlier run");
  EXPECT_FALSE(is_there("predictions.jsonl"));
  EXPECT_FALSE(is_there("generated_predictions.txt"));
  EXPECT_TRUE(is_there("other.txt"));
  EXPECT_FALSE(report.map.captions.empty());
}

}  // namespace
}  // namespace bascule::test
