// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/workbench.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

Counters counters(std::int64_t busy_ms, std::int64_t stolen_ms, std::int64_t delay_ns, std::int64_t throttled_ns) {
  Counters all;
  all.run_delay_ns = delay_ns;
  for (const std::int64_t core : {0, 1, 2}) {
    Counters::Core one;
    one.number = core;
    one.busy_ms = busy_ms;
    one.stolen_ms = stolen_ms;
    all.cores.push_back(one);
  }
  for (const std::int64_t part : {1, 2}) {
    Counters::Group group;
    group.throttled_ns = throttled_ns * part;
    all.groups.push_back(group);
  }
  return all;
}

// Two rounds of one second on two cores, whose siblings are core 2.
TEST(TakenTime, IsAShareOfTheTimeOfAllCoresThatTheProbeRunsOn) {
  TimeSums sums;
  const CoresOfProbe cores = {{0, 1}, {2}};
  for (int round = 0; round < 2; ++round) {
    sums.add(cores, 1.0, counters(0, 0, 0, 0), counters(800, 100, 400'000'000, 100'000'000));
    sums.used += 0.6;
  }
  const TakenTime taken = sums.taken(true);
  EXPECT_NEAR(taken.missing, (4.0 - 1.2) / 4.0, 1e-12);
  EXPECT_NEAR(taken.delay, 0.8 / 4.0, 1e-12);
  EXPECT_NEAR(taken.throttled, 2 * 0.2 / 4.0, 1e-12);        // of the outer group, which counts the inner one's too
  EXPECT_NEAR(taken.stolen, (4 * 0.1 - 0.01) / 4.0, 1e-12);  // but for a tick
  EXPECT_NEAR(taken.others, (4 * 0.8 - 1.2 - 0.01) / 4.0, 1e-12);
  EXPECT_NEAR(taken.siblings, (2 * 0.8 - 0.01) / 2.0, 1e-12);
  EXPECT_EQ(sums.taken(false).missing, 0.0);
}

}  // namespace
}  // namespace bascule
