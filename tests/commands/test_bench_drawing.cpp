// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_figures.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/record/small_drawing.h"

namespace bascule::test {
namespace {

MeasuredStage stage_of(const std::vector<double>& seconds, double gflops) {
  MeasuredStage stage;
  stage.seconds = seconds;
  stage.replays = static_cast<std::int64_t>(seconds.size()) + 1;  // one of the warm-up
  NodeTime node;
  node.scope = "layer";
  node.kind = "linear";
  node.seconds = 2.0 * static_cast<double>(stage.replays);
  node.flops = gflops * 1e9;
  stage.nodes = {node};
  return stage;
}

TEST(BenchDrawing, APictureTakesItsShareOfAllCallsAndItsDecoding) {
  const auto run =
      record_draw_run(drawing_settings("prompts = [\"a\"]\nnum_images_per_prompt = 4\nbatch_size = 4\n"
                                       "num_inference_steps = 5\nscheduler = \"ddim\"\n"));
  MachineLimits limits;
  limits.float32_gflops_per_second = 100.0;
  limits.gigabytes_per_second = 10.0;
  MeasuredDrawing measured;
  measured.encode = stage_of({9.0}, 900.0);
  measured.call = stage_of({1.0, 3.0, 2.0}, 100.0);  // 1 s at the limit
  measured.decode = stage_of({5.0}, 200.0);          // 2 s
  const BenchDrawingColumn column = drawing_figures_of(measured, *run, limits);
  EXPECT_EQ(column.batch, 4);
  EXPECT_EQ(column.calls, 5);
  EXPECT_DOUBLE_EQ(column.pictures_per_second(), 4.0 / (5.0 * 2.0 + 4.0 * 5.0));
  EXPECT_DOUBLE_EQ(column.ceiling(), 4.0 / (5.0 * 1.0 + 4.0 * 2.0));
  ASSERT_EQ(column.call.operations.size(), 1u);
  EXPECT_DOUBLE_EQ(column.call.operations.front().seconds, 2.0);  // of one replay
  EXPECT_DOUBLE_EQ(column.decode.flops(), 200e9);
  EXPECT_EQ(column.planned_bytes, run->plan.peak_bytes());

  BenchDrawing bench;
  bench.columns = {column};
  const std::string text = bench_text(bench);
  EXPECT_NE(text.find("reached                         43.3 %"), std::string::npos) << text;  // 13 of 30 s
  EXPECT_NE(text.find("reached                         50.0 %"), std::string::npos) << text;  // a call
  EXPECT_NE(text.find("reached                         40.0 %"), std::string::npos) << text;  // decoding
}

}  // namespace
}  // namespace bascule::test
