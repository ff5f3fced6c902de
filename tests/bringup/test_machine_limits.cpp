// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/machine_limits.h"

#include <vector>

#include <gtest/gtest.h>

namespace bascule {
namespace {

NodeTime node(const char* kind, double seconds, double flops, double bytes) {
  NodeTime node;
  node.kind = kind;
  node.seconds = seconds;
  node.flops = flops;
  node.bytes = bytes;
  return node;
}

MachineLimits some_limits() {
  MachineLimits limits;
  limits.float32_gflops_per_second = 100.0;
  limits.gigabytes_per_second = 10.0;
  return limits;
}

TEST(TimesByKind, SumsNodesOverReplaysTheLongestKindFirst) {
  const std::vector<NodeTime> nodes = {node("add", 1.0, 1e9, 2e9), node("linear", 3.0, 100e9, 1e9),
                                       node("linear", 1.0, 50e9, 1e9)};
  const MachineLimits limits = some_limits();
  const std::vector<OperationTime> times = times_by_kind(nodes, 4.0, &limits);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].name, "linear");
  EXPECT_EQ(times[0].calls, 8);
  EXPECT_EQ(times[0].seconds, 4.0);  // nodes hold the sum of all replays
  EXPECT_EQ(times[0].flops, 600e9);
  EXPECT_EQ(times[0].bytes, 8e9);
  EXPECT_DOUBLE_EQ(times[0].limit_seconds, 6.0);  // by its products
  EXPECT_EQ(times[1].name, "add");
  EXPECT_EQ(times[1].calls, 4);
  EXPECT_DOUBLE_EQ(times[1].limit_seconds, 0.8);  // by its memory traffic
}

TEST(TimesByKind, WithoutLimitsThereIsNoTimeAtThem) {
  EXPECT_EQ(times_by_kind({node("add", 1.0, 1e9, 2e9)}, 2.0, nullptr)[0].limit_seconds, 0.0);
}

}  // namespace
}  // namespace bascule
