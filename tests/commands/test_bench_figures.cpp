// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/run/demo_run.h"

namespace bascule::test {
namespace {

MeasuredSteps steps_of(const std::vector<double>& seconds) {
  MeasuredSteps steps;
  steps.seconds = seconds;
  steps.samples.assign(seconds.size(), 8);
  steps.micro_batches = 1;
  return steps;
}

TEST(BenchFigures, TheMedianOfAnEvenNumberOfStepsIsBetweenTheMiddleTwo) {
  DemoRun run("", "max_steps = 3\n[machine]\nstep_seconds = 0.5\n");
  const BenchColumn even = figures_of(steps_of({4.0, 1.0, 8.0, 2.0}), *run, MachineLimits());
  EXPECT_EQ(even.median, 3.0);  // of 8, 4, 2 and 1 samples a second
  EXPECT_EQ(even.least, 1.0);
  EXPECT_EQ(even.most, 8.0);
  const BenchColumn odd = figures_of(steps_of({4.0, 1.0, 2.0}), *run, MachineLimits());
  EXPECT_EQ(odd.median, 4.0);
  Bench bench;
  bench.columns = {even};
  const std::string text = bench_text(bench);
  EXPECT_NE(text.find("3000.00 ms"), std::string::npos) << text;  // of 4, 1, 8 and 2 seconds
}

}  // namespace
}  // namespace bascule::test
