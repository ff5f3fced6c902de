// SPDX-License-Identifier: Apache-2.0
#include "src/seal/disk_demand.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "src/record/run_inputs.h"
#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

std::int64_t saves_of(const std::string& training, std::int64_t done = -1) {
  DemoRun run("", training);
  if (done >= 0) run->resume.point.emplace().global_step = done;
  return checkpoints_to_write(*run, 100).saves;
}

TEST(DiskDemand, TheCheckpointOfTheEndComesBesideThoseOfTheInterval) {
  EXPECT_EQ(saves_of("max_steps = 10\nsave_steps = 5\n"), 2);
  EXPECT_EQ(saves_of("max_steps = 10\nsave_steps = 3\n"), 4);
  EXPECT_EQ(saves_of("max_steps = 10\nsave_steps = 30\n"), 1);
  EXPECT_EQ(saves_of("max_steps = 10\nsave_strategy = \"no\"\n"), 1);
  EXPECT_EQ(saves_of("num_train_epochs = 2.5\nsave_strategy = \"epoch\"\n"), 3);
}

TEST(DiskDemand, CheckpointsOfUpdatesThatAreDoneAreNotWrittenAgain) {
  EXPECT_EQ(saves_of("max_steps = 10\nsave_steps = 3\n", 3), 3);
  EXPECT_EQ(saves_of("max_steps = 10\nsave_steps = 3\n", 5), 3);
  EXPECT_EQ(saves_of("max_steps = 10\nsave_steps = 3\n", 9), 1);
  EXPECT_EQ(saves_of("max_steps = 10\nsave_steps = 3\n", 10), 0);
}

TEST(DiskDemand, WithTheBestOneMoreIsKeptThanTheNewest) {
  const std::string best = "max_steps = 10\nsave_steps = 5\neval_steps = 5\nload_best_model_at_end = true\n";
  for (const auto& [limit, kept] : {std::make_pair(1, 2), std::make_pair(2, 2), std::make_pair(3, 3)}) {
    DemoRun run("", best + "save_total_limit = " + std::to_string(limit) + "\n");
    EXPECT_EQ(checkpoints_to_write(*run, 100).save_total_limit, kept);
  }
  DemoRun without("", "max_steps = 10\nsave_total_limit = 1\n");
  EXPECT_EQ(checkpoints_to_write(*without, 100).save_total_limit, 1);
}

TEST(DiskDemand, ACheckpointHasTheMomentsAndTheAverageOfWhatIsTrained) {
  for (const char* const frozen : {"", "freeze = [\"text_model\"]\n"}) {
    for (const bool averages : {false, true}) {
      DemoRun run(frozen, std::string("max_steps = 10\n") + (averages ? "ema_decay = 0.9\n" : ""));
      const ParameterCount parameters = count_parameters(run->session.parameters());
      const DiskDemand demand = demand_of_tensors(*run);
      EXPECT_EQ(demand.checkpoint_bytes, 4 * (parameters.all + (averages ? 3 : 2) * parameters.trained));
      ASSERT_EQ(demand.final_files.size(), averages ? 2u : 1u) << "the model, and its average";
      for (const DiskFile& file : demand.final_files) {
        EXPECT_EQ(file.bytes, 4 * parameters.all);
        EXPECT_EQ(file.replaced_bytes, 0);
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test
