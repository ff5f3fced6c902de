// SPDX-License-Identifier: Apache-2.0
#include "src/finish/draw_results.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/record/small_drawing.h"

namespace bascule::test {
namespace {

constexpr char kLarge[] =
    "prompts = [\"a\"]\nnum_inference_steps = 5\nheight = 512\nwidth = 512\n"
    "num_images_per_prompt = 8\nbatch_size = 8\n";

TEST(DrawResults, LimitsAreMeasuredForALongRunAlone) {
  const auto run = record_draw_run(drawing_settings(kLarge));
  EXPECT_EQ(limits_for_report(*run, 0, best_isa()).gigabytes_per_second, 0.0);
  const auto no_page = record_draw_run(drawing_settings(kLarge, "sd_v1", "[report]\nhtml = false\n"));
  EXPECT_EQ(limits_for_report(*no_page, 1'000'000, best_isa()).gigabytes_per_second, 0.0);
  const auto small = record_draw_run(drawing_settings("prompts = [\"a\"]\n"));
  ASSERT_LT(small->plan.peak_bytes(), kLimitsBytes);
  EXPECT_EQ(limits_for_report(*small, 1'000'000'000, best_isa()).gigabytes_per_second, 0.0);
}

TEST(DrawResultsSlow, LimitsAreMeasuredForALongRunWithRoomForThem) {
  const auto run = record_draw_run(drawing_settings(kLarge));
  ASSERT_GE(run->plan.peak_bytes(), kLimitsBytes);
  const std::size_t before = resident_bytes();
  const MachineLimits limits = limits_for_report(*run, 1'000'000, best_isa());
  EXPECT_LT(resident_bytes(), before + (std::size_t{8} << 20)) << "memory of measuring was not given back";
  EXPECT_GT(limits.float32_gflops_per_second, 0.0);
  EXPECT_GT(limits.gigabytes_per_second, 0.0);
}

TEST(DrawResults, OperationsOfTheReportHaveTheirLimits) {
  SmallDrawing drawing(drawing_settings("prompts = [\"a\"]\nnum_inference_steps = 2\n"));
  (void)drawing.all();
  const Tape& calls = drawing.sealed.tape(drawing.run->recorded.noise);
  DrawResults results;
  results.replays = static_cast<std::int64_t>(drawing.run->program.calls.size());
  for (const OperationTime& one : draw_page_of(*drawing.run, results, calls).operations)
    EXPECT_EQ(one.limit_seconds, 0.0) << one.name;
  results.limits.float32_gflops_per_second = 1e-6;  // slower than any memory
  results.limits.gigabytes_per_second = 1e6;
  for (const OperationTime& one : draw_page_of(*drawing.run, results, calls).operations) {
    if (one.name != "linear" && one.name != "convolution") continue;
    EXPECT_NEAR(one.limit_seconds, one.flops / 1e3, 1e-9 * one.flops) << one.name;
  }
}

// With two places, those of a batch of one, the order of the list would encode "a" twice.
TEST(DrawResults, APromptThatComesBackIsEncodedOnce) {
  SmallDrawing drawing(
      drawing_settings("prompts = [\"a\", \"b\", \"c\", \"a\"]\nnum_inference_steps = 1\nbatch_size = 1\n"));
  ASSERT_EQ(drawing.run->options.prompts, 2);
  const std::vector<std::int64_t> order = drawing.run->files->missing();
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 3, 1, 2}));
  for (const std::int64_t number : order) (void)drawing.batch({number});
  EXPECT_EQ(drawing.drawer.encoded_texts(), 4);  // "", "a", "b", "c"
}

TEST(DrawResults, TheCardSaysWhatIsLeftAsideAndTheSettings) {
  const auto run = record_draw_run(drawing_settings("prompts = [\"a\"]\nseed = 7\nheight = 16\nwidth = 24\n"));
  run->notes = {"safety_checker of the folder is not used: no picture is checked or read"};
  const std::string card = draw_card(*run);
  for (const char* part : {"# o\n\n1 picture of 24 x 16 pixels",
                           "\n    safety_checker of the folder is not used: no picture is checked or read\n",
                           "\n    draw.seed = 7\n", "\n    draw.prompts = [\"a\"]\n"})
    EXPECT_NE(card.find(part), std::string::npos) << part << "\n" << card;
}

TEST(DrawResults, ThroughputSaysWhetherTheWarmUpCounts) {
  DrawResults results;
  results.pictures = results.timed_pictures = 1;
  results.timed_seconds = 0.5;
  for (const auto& [batches, words] :
       {std::pair{"0", " pictures/s, with warm-up\n"}, {"1", " pictures/s, without warm-up\n"}}) {
    const auto run = record_draw_run(
        drawing_settings("prompts = [\"a\"]\nthroughput_warmup_batches = " + std::string(batches) + "\n"));
    const std::string text = draw_summary(*run, results);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

// A note quotes what a prompt says beyond the length that the model reads.
TEST(DrawResults, LongAndManyNotesStayShort) {
  const auto run = record_draw_run(drawing_settings("prompts = [\"a\"]\n"));
  run->notes.assign(22, "b\n# title\n" + std::string(390, 'x') + "é");
  const std::string line = "    b # title " + std::string(390, 'x') + "…\n", card = draw_card(*run);
  EXPECT_NE(card.find("## Notes\n\n" + line + line), std::string::npos) << card;
  EXPECT_NE(card.find(line + "    and 2 more, which the run printed\n"), std::string::npos) << card;
  EXPECT_EQ(short_notes({}), std::vector<std::string>());
  EXPECT_EQ(short_notes(std::vector<std::string>(20, "n")), std::vector<std::string>(20, "n"));
}

}  // namespace
}  // namespace bascule::test
