// SPDX-License-Identifier: Apache-2.0
// What `bascule bench` measures of the steps of a run.
#include "src/seal/measured_steps.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

TEST(MeasuredSteps, HavePhasesOfTheMeasuredStepsAlone) {
  DemoRun run("", "max_steps = 4\n");
  const MeasuredSteps measured = measure_steps(*run, best_isa(), 3, 1, false);
  ASSERT_EQ(measured.seconds.size(), 1u);
  const double phases = std::accumulate(measured.phases, measured.phases + kStepPhases, 0.0);
  EXPECT_GT(phases, 0.0);
  EXPECT_LE(phases, 1.1 * measured.seconds[0]);
}

}  // namespace
}  // namespace bascule::test
