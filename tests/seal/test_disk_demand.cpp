// SPDX-License-Identifier: Apache-2.0
#include "src/seal/disk_demand.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "src/record/run_inputs.h"
#include "src/seal/sealed_writers.h"
#include "tests/seal/short_run.h"
#include "tests/support/files.h"

namespace bascule::test {
namespace {

std::int64_t saves_of(const std::string& training, std::int64_t done = -1) {
  DemoRun run("", training);
  if (done >= 0) run->resume.point.emplace().global_step = done;
  return disk_demand(*run, {100, {}}).saves;
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
    EXPECT_EQ(disk_demand(*run, {100, {}}).save_total_limit, kept);
  }
  DemoRun without("", "max_steps = 10\nsave_total_limit = 1\n");
  EXPECT_EQ(disk_demand(*without, {100, {}}).save_total_limit, 1);
}

TEST(DiskDemand, ACheckpointHasTheMomentsAndTheAverageOfWhatIsTrained) {
  for (const char* const frozen : {"", "freeze = [\"text_model\"]\n"}) {
    for (const bool averages : {false, true}) {
      DemoRun run(frozen, std::string("max_steps = 10\n") + (averages ? "ema_decay = 0.9\n" : ""));
      const ParameterCount parameters = count_parameters(run->session.parameters());
      const ModelFiles files = tensors_to_hold(*run);
      EXPECT_EQ(files.checkpoint_bytes, 4 * (parameters.all + (averages ? 3 : 2) * parameters.trained));
      ASSERT_EQ(files.finished.size(), averages ? 2u : 1u) << "the model, and its average";
      for (const DiskFile& file : files.finished) {
        EXPECT_EQ(file.bytes, 4 * parameters.all);
        EXPECT_EQ(file.replaced_bytes, 0);
      }
    }
  }
}

TEST(DiskDemand, OfARunThatTrainsNothingAreItsResults) {
  DemoRun run("", "do_train = false\n");
  const DiskDemand demand = disk_demand(*run, tensors_to_hold(*run));
  EXPECT_EQ(demand.checkpoint_bytes, 0);
  EXPECT_EQ(demand.saves, 0);
  EXPECT_FALSE(demand.has_model);
  EXPECT_GE(disk_need(demand).bytes, 2 << 20);
}

// The bytes of the tensors in a file of the format safetensors, all of which stand behind the header.
std::int64_t tensor_bytes(const std::string& path) {
  const std::string file = read_file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  return static_cast<std::int64_t>(file.size() - sizeof header - header);
}

// The plan's figure, that of the check before the first step, and what is written.
TEST(DiskDemand, IsWhatTheRunThenWrites) {
  for (const char* const more : {"", "optimizer = \"adafactor\"\nema_decay = 0.9\n", "optimizer = \"lamb\"\n"}) {
    const TemporaryFolder folder;
    ShortRun run(folder.path(), std::string("max_steps = 2\nsave_steps = 2\n") + more);
    const RecordedRun& recorded = run->run();
    const ModelFiles tensors = tensors_to_hold(recorded);
    const DiskDemand planned = disk_demand(recorded, tensors);
    const DiskDemand exact =
        disk_demand(recorded, files_to_hold(run->writer(), run->final_model(), run->averaged_model(), run.folder()));
    ASSERT_TRUE(run->loop().run().ok());
    const std::string checkpoint = run.folder() + "/checkpoint-2";
    // A model has tensors that its head never reads: they are kept, and known when the files are opened.
    const std::int64_t weights = tensors.finished[0].bytes, kept = tensor_bytes(checkpoint + "/model.safetensors");
    EXPECT_EQ(tensors.checkpoint_bytes - weights, tensor_bytes(checkpoint + "/training_state.safetensors")) << more;
    EXPECT_EQ(kept - weights, 4 * (128 * 128 + 128)) << "the pooling of the demo's text model";
    const auto digests = static_cast<std::int64_t>(read_file(checkpoint + "/picture_digests.bin").size());
    EXPECT_EQ(planned.checkpoint_bytes - tensors.checkpoint_bytes,
              static_cast<std::int64_t>(recorded.plan[kRecordMemory].bytes) + digests);
    std::int64_t written = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(checkpoint))
      written += file.is_regular_file() ? static_cast<std::int64_t>(file.file_size()) : 0;
    constexpr std::int64_t kFilesBesideTensors = 1 << 20;
    EXPECT_LE(written, exact.checkpoint_bytes) << more;
    EXPECT_LE(exact.checkpoint_bytes, planned.checkpoint_bytes + kFilesBesideTensors) << more;
    EXPECT_LE(planned.checkpoint_bytes, exact.checkpoint_bytes) << more;
    EXPECT_LE(exact.checkpoint_bytes, written + kFilesBesideTensors) << more;
    EXPECT_EQ(planned.saves, exact.saves);
    EXPECT_TRUE(planned.has_model && exact.has_model);
    std::int64_t of_files = 0;
    for (const DiskFile& file : exact.final_files) of_files += file.bytes;
    for (const DiskFile& file : planned.final_files) of_files -= file.bytes;
    EXPECT_GT(of_files, 0) << more;
    EXPECT_LT(of_files, kFilesBesideTensors) << more;
  }
}

}  // namespace
}  // namespace bascule::test
