// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/record/demo_run.h"

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
  bench.columns[0].could_deliver = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(bench_text(bench).find(" not measured\n"), std::string::npos) << bench_text(bench);
}

// A loader delivers at least what the steps took; where it was not measured, that says nothing of it.
TEST(BenchFigures, ALoaderThatWasNotMeasuredHasNoRate) {
  DemoRun run("", "max_steps = 3\n[machine]\nstep_seconds = 0.5\n");
  MeasuredSteps steps = steps_of({4.0, 1.0, 2.0});  // 4 samples a second
  for (const double rate : {3.0, 5.0}) {
    steps.could_deliver = rate;
    EXPECT_EQ(figures_of(steps, *run, MachineLimits()).could_deliver, std::max(rate, 4.0));
  }
  steps.could_deliver = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(figures_of(steps, *run, MachineLimits()).could_deliver));
}

TEST(BenchFigures, ProductsAreHeldToTheLimitOfTheirType) {
  DemoRun run("", "max_steps = 3\n");
  MachineLimits limits;
  limits.float32_gflops_per_second = 100.0;
  limits.bf16_gflops_per_second = 400.0;
  limits.gigabytes_per_second = 10.0;
  MeasuredSteps steps = steps_of({1.0});
  for (const bool is_bf16 : {false, true}) {
    NodeTime node;
    node.scope = "layer";
    node.kind = is_bf16 ? "linear in bf16" : "linear";
    node.bf16_products = is_bf16;
    node.flops = 200e9;
    steps.nodes.push_back(node);
  }
  const BenchColumn column = figures_of(steps, *run, limits);
  ASSERT_EQ(column.operations.size(), 2u);
  for (const OperationTime& operation : column.operations)
    EXPECT_DOUBLE_EQ(operation.limit_seconds, operation.name == "linear" ? 2.0 : 0.5) << operation.name;
  Bench bench;
  bench.columns = {column};
  EXPECT_NE(bench_text(bench).find("\n  linear in bf16  "), std::string::npos);
}

}  // namespace
}  // namespace bascule::test
