// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_writer.h"

#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/checkpoint/hf_folder.h"
#include "src/json/json.h"
#include "tests/checkpoint/saved_run.h"
#include "tests/support/count_allocations.h"

namespace bascule {
namespace {

using Names = std::vector<std::string>;
using CheckpointSaved = test::SavedRun;

TEST_F(CheckpointSaved, AMomentComesBackBitForBit) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 40).ok());
  const std::optional<ResumePoint> point = newest();
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->folder, folder(40));
  EXPECT_EQ(point->global_step, 40);
  EXPECT_EQ(point->samples_seen, 320);
  EXPECT_EQ(point->epoch, 40.0 / 3);
  EXPECT_EQ(point->number("loss_sum"), 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(point->number("lost")));
  EXPECT_EQ(point->settings_digest, "abc123");
  ASSERT_EQ(point->other_settings.size(), 1u);
  EXPECT_EQ(point->other_settings[0].value, "2");
  ASSERT_EQ(point->history.size(), 1u);
  EXPECT_EQ(point->history[0].step, 20);
  EXPECT_EQ(point->history[0].key, "training.max_steps");
  EXPECT_EQ(point->history[0].to, "60");
  ASSERT_EQ(point->replacements.size(), 1u);
  EXPECT_EQ(point->replacements[0].position, 17);
  EXPECT_EQ(point->replacements[0].row, 23);
  EXPECT_EQ(point->replacements[0].bad_row, 22);
  EXPECT_EQ(point->replacements[0].reason, 5);
  EXPECT_EQ(test::read_file(folder(40) + "/trainer_state.json"), text_);
  const TensorSource state = open_training_state(*point);
  EXPECT_EQ(test::read_all(state, *state.find("exp_avg_sq.w")), moments_);
  const TensorSource model = open_hf_weights(point->folder);
  EXPECT_EQ(test::read_all(model, *model.find("w")), weights_);
  EXPECT_EQ(notes_, Names{});
}

TEST_F(CheckpointSaved, SavingAllocatesNothing) {
  CheckpointWriter writer(contents(1));
  ASSERT_TRUE(save(writer, 1).ok());
  const std::int64_t before = test::allocations();
  ASSERT_TRUE(save(writer, 2).ok());  // removes the first as well
  EXPECT_EQ(test::allocations(), before);
}

TEST_F(CheckpointSaved, TheSameMomentGivesTheSameBytes) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 7).ok());
  Names first;
  for (const std::string& name : folder_entries(folder(7))) first.push_back(test::read_file(folder(7) + "/" + name));
  ASSERT_TRUE(save(writer, 7).ok());  // takes the place of the first
  Names second;
  for (const std::string& name : folder_entries(folder(7))) second.push_back(test::read_file(folder(7) + "/" + name));
  EXPECT_EQ(first, second);
  EXPECT_EQ(folder_entries(output_.path()), Names{"checkpoint-7"});
}

TEST_F(CheckpointSaved, OnlyTheNewestStayAndThoseOfAnAbandonedRunGo) {
  CheckpointWriter writer(contents(2));
  for (const std::int64_t step : {10, 20, 100}) ASSERT_TRUE(save(writer, step).ok());
  EXPECT_EQ(folder_entries(output_.path()), (Names{"checkpoint-100", "checkpoint-20"}));
  ASSERT_TRUE(save(writer, 30).ok());  // the run began again from 20
  EXPECT_EQ(folder_entries(output_.path()), (Names{"checkpoint-20", "checkpoint-30"}));
  EXPECT_EQ(newest()->global_step, 30);
}

TEST_F(CheckpointSaved, WithoutALimitAllStay) {
  CheckpointWriter writer(contents(0));
  for (const std::int64_t step : {1, 2, 3}) ASSERT_TRUE(save(writer, step).ok());
  EXPECT_EQ(folder_entries(output_.path()).size(), 3u);
}

TEST_F(CheckpointSaved, WhateverAKilledSaveLeavesThePreviousCheckpointIsFound) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 10).ok());
  ASSERT_TRUE(save(writer, 20).ok());
  const auto copy = [&](const std::string& from, const std::string& to) {
    std::filesystem::copy(output_.path() + "/" + from, output_.path() + "/" + to,
                          std::filesystem::copy_options::recursive);
  };
  copy("checkpoint-20", ".tmp-bascule-checkpoint-30");          // all written, not renamed
  copy("checkpoint-10", ".tmp-bascule-checkpoint-20");          // exchanged with the new one, not yet removed
  copy("checkpoint-10", ".tmp-bascule-checkpoint-5.deleting");  // an old one on its way out
  EXPECT_EQ(newest()->global_step, 20);
  remove_leftovers(output_.path());
  EXPECT_EQ(newest()->global_step, 20);
  EXPECT_EQ(folder_entries(output_.path()), (Names{"checkpoint-10", "checkpoint-20"}));
}

// Counts progress calls down and kills the process at the last.
struct Killer {
  int calls_left;
};

TEST_F(CheckpointSaved, KilledAtAnyMiBOfASaveThePreviousCheckpointIsWhole) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 10).ok());
  for (int calls = 1; calls <= 9; calls += 2) {  // 3 MiB of weights, twice as much of moments
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Killer killer{calls};
      const auto tell = [](void* context, std::int64_t) noexcept {
        if (--static_cast<Killer*>(context)->calls_left == 0) ::raise(SIGKILL);
      };
      const Status status = save(writer, 20, {tell, &killer});
      ::_exit(status.ok() ? 0 : 1);
    }
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how)) << calls;
    EXPECT_EQ(newest()->global_step, 10);
    remove_leftovers(output_.path());
    EXPECT_EQ(folder_entries(output_.path()), Names{"checkpoint-10"});
  }
}

TEST_F(CheckpointSaved, AFullDiskLeavesThePreviousCheckpointAndNoHalfOne) {
  CheckpointWriter writer(contents(1));
  ASSERT_TRUE(save(writer, 10).ok());
  struct rlimit usual {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t bytes : {rlim_t{1} << 20, rlim_t{4} << 20}) {  // within the weights, within the moments
    struct rlimit small = usual;
    small.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &small);
    const Status status = save(writer, 20);
    ::setrlimit(RLIMIT_FSIZE, &usual);
    EXPECT_EQ(status.code, StatusCode::kDiskFailed);
    EXPECT_EQ(status.detail[0], EFBIG);
    const char* at_fault = bytes == rlim_t{1} << 20 ? ".tmp-bascule-checkpoint-20" : "training_state.safetensors";
    EXPECT_NE(std::string(writer.failed_path()).find(at_fault), std::string::npos) << writer.failed_path();
    EXPECT_EQ(folder_entries(output_.path()), Names{"checkpoint-10"});
    EXPECT_EQ(newest()->global_step, 10);
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(save(writer, 20).ok());
  EXPECT_EQ(folder_entries(output_.path()), Names{"checkpoint-20"});
}

TEST_F(CheckpointSaved, TheFolderThatCannotBeMadeIsNamed) {
  CheckpointWriter writer(contents());
  std::filesystem::remove_all(output_.path());
  const std::string begun = output_.path() + "/.tmp-bascule-";
  EXPECT_EQ(save(writer, 10).code, StatusCode::kDiskFailed);
  EXPECT_EQ(writer.failed_path(), begun + "checkpoint-10");
  CheckpointMoment moment;
  moment.texts = Span<const std::string_view>(&text_, 1);
  EXPECT_EQ(writer.save_last_state(moment).code, StatusCode::kDiskFailed);
  EXPECT_EQ(writer.failed_path(), begun + "last_state");
}

TEST_F(CheckpointSaved, MoreReplacementsThanPlannedAreRefused) {
  CheckpointContents small = contents();
  small.max_replacements = 10;
  CheckpointWriter writer(small);
  const std::vector<ReplacedSample> many(1000, ReplacedSample{1000000, 1000000, 1000000, 1000000, 1000000});
  CheckpointMoment moment;
  moment.texts = Span<const std::string_view>(&text_, 1);
  moment.replacements = many;
  EXPECT_EQ(writer.save(moment).detail[0], EOVERFLOW);
  moment.replacements = Span<const ReplacedSample>(many.data(), 10);
  EXPECT_TRUE(writer.save(moment).ok());
}

TEST_F(CheckpointSaved, ACheckpointThatLacksANumberSaysSo) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 40).ok());
  test::expect_data_error("lacks the number \"tokens\"", [&] { newest()->number("tokens"); });
}

TEST_F(CheckpointSaved, WhatIsNotOursIsNeitherRemovedNorReplacedNorCounted) {
  const auto put = [&](const std::string& name) {
    std::filesystem::create_directory(output_.path() + "/" + name);
    output_.write(name + "/pytorch_model.bin", "weights of somebody");
  };
  CheckpointWriter writer(contents(1));
  put("checkpoint-5");
  put("checkpoint-0030");
  put("checkpoint-40");
  ASSERT_TRUE(save(writer, 10).ok());
  ASSERT_TRUE(save(writer, 20).ok());
  EXPECT_EQ(folder_entries(output_.path()),
            (Names{"checkpoint-0030", "checkpoint-20", "checkpoint-40", "checkpoint-5"}));
  const Status status = save(writer, 40);
  EXPECT_EQ(status.code, StatusCode::kDiskFailed);
  EXPECT_EQ(status.detail[0], EEXIST);
  EXPECT_EQ(writer.failed_path(), folder(40));
  for (const char* name : {"checkpoint-5", "checkpoint-0030", "checkpoint-40"}) {
    EXPECT_EQ(folder_entries(output_.path() + "/" + name), Names{"pytorch_model.bin"});
    EXPECT_EQ(test::read_file(output_.path() + "/" + name + "/pytorch_model.bin"), "weights of somebody");
  }
  EXPECT_TRUE(std::filesystem::exists(folder(20)));
}

}  // namespace
}  // namespace bascule
