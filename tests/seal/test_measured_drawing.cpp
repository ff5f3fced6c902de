// SPDX-License-Identifier: Apache-2.0
#include "src/seal/measured_steps.h"

#include <gtest/gtest.h>

#include "tests/record/small_drawing.h"

namespace bascule::test {
namespace {

TEST(MeasuredDrawing, EveryReplayIsCountedAndThoseOfTheWarmUpAreNotTimed) {
  const auto run = record_draw_run(drawing_settings("prompts = [\"a cat\", \"a dog\"]\nbatch_size = 2\n"));
  const MeasuredDrawing measured = measure_drawing(*run, best_isa(), 2, 3, false);
  // The prompts that calls read are encoded first: two, and the empty one.
  EXPECT_EQ(measured.encode.replays, 3 + 2 + 3);
  EXPECT_EQ(measured.call.replays, 2 + 3);
  EXPECT_EQ(measured.decode.replays, 2 + 3);
  for (const MeasuredStage* stage : {&measured.encode, &measured.call, &measured.decode}) {
    EXPECT_EQ(stage->seconds.size(), 3u);
    double flops = 0.0;
    for (const NodeTime& node : stage->nodes) flops += node.flops;
    EXPECT_GT(flops, 0.0);
    for (const double seconds : stage->seconds) EXPECT_GT(seconds, 0.0);
  }
  EXPECT_GT(measured.resident_bytes, 0u);
}

}  // namespace
}  // namespace bascule::test
