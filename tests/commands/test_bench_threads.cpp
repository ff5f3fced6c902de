// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bascule::test {
namespace {

NodeTime node_of(const std::string& kind, double seconds, double bytes) {
  NodeTime node;
  node.kind = kind;
  node.seconds = seconds;
  node.bytes = bytes;
  return node;
}

// Two batches a step, measured twice: an operation's seconds are of four batches.
MeasuredSteps steps_of() {
  MeasuredSteps steps;
  steps.seconds = {1.0, 3.0};
  steps.micro_batches = 4;
  steps.nodes = {node_of("linear", 2.0, 30e9), node_of("dropout", 1.0, 1e9)};
  return steps;
}

TEST(BenchThreads, AnOperationIsAsSlowAsMemoryAndAStepAsItsOperations) {
  MeasuredSteps steps = steps_of();
  limit_by_memory(&steps, 2.0, 0.0, 8, {10.0});
  // "linear" takes 0.5 s of a batch, and 3 s to read and write 30 GB; "dropout" takes 0.25 s and needs 0.1.
  EXPECT_DOUBLE_EQ(steps.nodes[0].memory_seconds, 4 * 2.5);
  EXPECT_DOUBLE_EQ(steps.nodes[0].seconds, 2.0 + 4 * 2.5);
  EXPECT_DOUBLE_EQ(steps.nodes[1].memory_seconds, 0.0);
  EXPECT_DOUBLE_EQ(steps.nodes[1].seconds, 1.0);
  EXPECT_DOUBLE_EQ(steps.seconds[0], 1.0 + 2 * 2.5);
  EXPECT_DOUBLE_EQ(steps.seconds[1], 3.0 + 2 * 2.5);
}

TEST(BenchThreads, AnUpdateIsAsSlowAsMemory) {
  // A mean step of 2 s has operations of 2 * 0.75 s, so that 0.5 s are left for the update.
  MeasuredSteps slow = steps_of();
  limit_by_memory(&slow, 2.0, 60e9, 8, {100.0});
  EXPECT_DOUBLE_EQ(slow.seconds[0], 1.0 + 0.1);
  EXPECT_DOUBLE_EQ(slow.seconds[1], 3.0 + 0.1);
  MeasuredSteps fast = steps_of();
  limit_by_memory(&fast, 2.0, 40e9, 8, {100.0});
  EXPECT_EQ(fast.seconds, (std::vector<double>{1.0, 3.0}));
}

// What one thread does faster than memory has the rest of its bytes from caches, with more threads as well.
TEST(BenchThreads, MemoryOfThisMachineLimitsOnlyWhatOneThreadTakesFromIt) {
  MeasuredSteps steps = steps_of();
  steps.nodes[0].work_seconds = 4 * 1.0;   // 30 GB in a second, three times as fast as one thread's memory
  steps.nodes[1].work_seconds = 4 * 0.25;  // 1 GB, less than its memory would do
  limit_by_memory(&steps, 2.0, 0.0, 2, {12.0, 10.0});
  EXPECT_DOUBLE_EQ(steps.nodes[0].memory_seconds, 4 * (30.0 / (3 * 12.0) - 0.5));
  EXPECT_DOUBLE_EQ(steps.nodes[1].memory_seconds, 0.0);
  // One thread alone takes as long as it was measured.
  MeasuredSteps alone = steps_of();
  for (NodeTime& node : alone.nodes) node.work_seconds = node.seconds;
  limit_by_memory(&alone, 2.0, 60e9, 1, {10.0, 10.0});
  EXPECT_EQ(alone.seconds, (std::vector<double>{1.0, 3.0}));
  // An update of 60 GB that two threads do in 0.5 s: one thread does it in a second, six times as fast as its memory.
  MeasuredSteps update = steps_of();
  for (NodeTime& node : update.nodes) node.bytes = 0.0;
  limit_by_memory(&update, 2.0, 60e9, 2, {12.0, 10.0});
  EXPECT_DOUBLE_EQ(update.seconds[0], 1.0 + 60.0 / (6 * 12.0) - 0.5);
}

TEST(BenchThreads, TheLoaderTakesItsShareOfEachCore) {
  MeasuredSteps steps = steps_of();
  steps.samples = {10, 20};
  steps.loading_seconds = 0.5;
  share_cores_with_loader(&steps, 4);
  EXPECT_EQ(steps.seconds, (std::vector<double>{1.0 + 10 * 0.5 / 4, 3.0 + 20 * 0.5 / 4}));
}

TEST(BenchThreads, LostTimeIsWhatWorkDividedByTheThreadsDoesNotExplain) {
  MeasuredSteps steps = steps_of();
  for (NodeTime& node : steps.nodes) {
    node.work_seconds = 4.0;  // 0.5 s on 8 threads
    node.few_tasks_seconds = 0.25;
    node.barrier_seconds = 0.125;
  }
  const std::vector<LostTime> lost = lost_time(steps.nodes, 4.0, 8);
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[0].name, "linear");  // the largest first
  EXPECT_DOUBLE_EQ(lost[0].seconds, (2.0 - 0.5) / 4);
  EXPECT_DOUBLE_EQ(lost[0].few_tasks, 0.25 / 4);
  EXPECT_DOUBLE_EQ(lost[0].barrier, 0.125 / 4);
  EXPECT_DOUBLE_EQ(lost[0].last_tasks, (2.0 - 0.5 - 0.25 - 0.125) / 4);
  EXPECT_EQ(lost[0].memory, 0.0);
  const std::string text = lost_text({{"linear", 0.015, 0.008, 0.004, 0.002, 0.001}}, "call", 8);
  EXPECT_EQ(text.rfind("\nlost by call, ms ", 0), 0u) << text;
  EXPECT_NE(text.find("       15.000         8.000         4.000         2.000         1.000\n"), std::string::npos)
      << text;
}

TEST(BenchThreads, SpeedIsSaidWithoutExponents) {
  EXPECT_EQ(simulated_speed_text(64, 123456.7, 250000.0, "samples/s"),
            "\n64 threads, simulated: 123,457 samples/s, 49.4 % of the ceiling, 250,000\n");
  EXPECT_EQ(simulated_speed_text(1, 0.0423, 0.05, "pictures/s"),
            "\n1 thread, simulated: 0.0423 pictures/s, 84.6 % of the ceiling, 0.0500\n");
}

}  // namespace
}  // namespace bascule::test
