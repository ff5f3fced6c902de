// SPDX-License-Identifier: Apache-2.0

#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/checkpoint/checkpoint_writer.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/output_dir.h"
#include "src/json/json.h"
#include "tests/checkpoint/count_allocations.h"
#include "tests/checkpoint/files.h"
#include "tests/data/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;
using Names = std::vector<std::string>;

// A run of two tensors whose values the tests change between saves.
class Resume : public testing::Test {
 protected:
  static constexpr std::int64_t kCount = 600000;  // 2.4 MB a tensor: several progress calls each

  CheckpointContents contents(std::int64_t limit = 0) {
    CheckpointContents contents;
    contents.output_dir = output_.path();
    contents.save_total_limit = limit;
    contents.model.config_json = "{}\n";
    contents.model.tensors = {{"w", DType::kFloat32, {kCount}, weights_.data()}};
    contents.optimizer = {{exp_avg_name("w"), DType::kFloat32, {kCount}, moments_.data()},
                          {exp_avg_sq_name("w"), DType::kFloat32, {kCount}, moments_.data()}};
    contents.settings_digest = "abc123";
    contents.settings = {{"training.learning_rate", "1e-05"}, {"training.seed", "42"}};
    contents.other_settings = {{"machine.threads", "2"}};
    contents.history = {{20, "training.max_steps", "30", "60", "2026-11-22T06:00:00Z"}};
    contents.text_files = {"trainer_state.json"};
    return contents;
  }

  Status save(CheckpointWriter& writer, std::int64_t step, WriteProgress progress = {}) {
    CheckpointMoment moment;
    moment.global_step = step;
    moment.samples_seen = 8 * step;
    moment.epoch = static_cast<double>(step) / 3;
    moment.numbers = Span<const NamedNumber>(numbers_, 2);
    moment.replacements = Span<const Replacement>(&replacement_, 1);
    moment.texts = Span<const std::string_view>(&text_, 1);
    return writer.save(moment, progress);
  }

  std::optional<ResumePoint> newest() { return find_newest_checkpoint(output_.path(), &notes_); }
  std::string folder(std::int64_t step) { return output_.path() + "/checkpoint-" + std::to_string(step); }

  TemporaryFolder output_;
  std::vector<float> weights_ = std::vector<float>(kCount, 1.5f);
  std::vector<float> moments_ = std::vector<float>(kCount, 0.25f);
  NamedNumber numbers_[2] = {{"loss_sum", 0.1 + 0.2}, {"lost", std::numeric_limits<double>::infinity()}};
  Replacement replacement_{1, 17, 23, 22, 5};
  std::string_view text_ = "{\"log_history\": []}\n";
  Names notes_;
};

TEST_F(Resume, AMomentComesBackBitForBit) {
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

TEST_F(Resume, SavingAllocatesNothing) {
  CheckpointWriter writer(contents(1));
  ASSERT_TRUE(save(writer, 1).ok());
  const int before = test::allocations();
  ASSERT_TRUE(save(writer, 2).ok());  // removes the first as well
  EXPECT_EQ(test::allocations(), before);
}

TEST_F(Resume, TheSameMomentGivesTheSameBytes) {
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

TEST_F(Resume, OnlyTheNewestStayAndThoseOfAnAbandonedRunGo) {
  CheckpointWriter writer(contents(2));
  for (const std::int64_t step : {10, 20, 100}) ASSERT_TRUE(save(writer, step).ok());
  EXPECT_EQ(folder_entries(output_.path()), (Names{"checkpoint-100", "checkpoint-20"}));
  ASSERT_TRUE(save(writer, 30).ok());  // the run began again from 20
  EXPECT_EQ(folder_entries(output_.path()), (Names{"checkpoint-20", "checkpoint-30"}));
  EXPECT_EQ(newest()->global_step, 30);
}

TEST_F(Resume, WithoutALimitAllStay) {
  CheckpointWriter writer(contents(0));
  for (const std::int64_t step : {1, 2, 3}) ASSERT_TRUE(save(writer, step).ok());
  EXPECT_EQ(folder_entries(output_.path()).size(), 3u);
}

TEST_F(Resume, NothingToResumeFromIsNoError) {
  EXPECT_FALSE(newest().has_value());
  EXPECT_FALSE(find_newest_checkpoint(output_.path() + "/absent", &notes_).has_value());
}

TEST_F(Resume, ADamagedCheckpointIsPassedOverWithALine) {
  CheckpointWriter writer(contents());
  for (const std::int64_t step : {10, 20, 30, 40, 50, 60, 70}) ASSERT_TRUE(save(writer, step).ok());
  std::filesystem::resize_file(folder(70) + "/model.safetensors", 1000);
  std::filesystem::remove(folder(60) + "/training_state.safetensors");
  std::filesystem::remove(folder(50) + "/bascule_state.json");
  std::filesystem::resize_file(folder(40) + "/bascule_state.json", 50);
  std::filesystem::rename(folder(10), folder(35));
  const std::string path = folder(30) + "/training_state.safetensors";  // right size, broken header
  std::string bytes = test::read_file(path);
  bytes[9] = '?';
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(newest()->global_step, 20);
  ASSERT_EQ(notes_.size(), 6u);
  EXPECT_NE(notes_[0].find("checkpoint-70 is not whole and is passed over: "), std::string::npos) << notes_[0];
  EXPECT_NE(notes_[0].find("model.safetensors: has 1000 bytes instead of"), std::string::npos) << notes_[0];
  EXPECT_NE(notes_[1].find("training_state.safetensors: cannot be opened"), std::string::npos) << notes_[1];
  EXPECT_NE(notes_[2].find("bascule_state.json: cannot be opened"), std::string::npos) << notes_[2];
  EXPECT_NE(notes_[3].find("bascule_state.json:"), std::string::npos) << notes_[3];
  EXPECT_NE(notes_[4].find("is of step 10"), std::string::npos) << notes_[4];
  EXPECT_NE(notes_[5].find("training_state.safetensors"), std::string::npos) << notes_[5];
}

TEST_F(Resume, WhateverAKilledSaveLeavesThePreviousCheckpointIsFound) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 10).ok());
  ASSERT_TRUE(save(writer, 20).ok());
  const auto copy = [&](const std::string& from, const std::string& to) {
    std::filesystem::copy(output_.path() + "/" + from, output_.path() + "/" + to,
                          std::filesystem::copy_options::recursive);
  };
  copy("checkpoint-20", "checkpoint-30.tmp");      // all written, not renamed
  copy("checkpoint-10", "checkpoint-20.tmp");      // exchanged with the new one, not yet removed
  copy("checkpoint-10", "checkpoint-5.deleting");  // an old one on its way out
  EXPECT_EQ(newest()->global_step, 20);
  EXPECT_EQ(folder_entries(output_.path()), (Names{"checkpoint-10", "checkpoint-20"}));
}

// Counts progress calls down and kills the process at the last.
struct Killer {
  int calls_left;
};

TEST_F(Resume, KilledAtAnyMiBOfASaveThePreviousCheckpointIsWhole) {
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
    EXPECT_EQ(folder_entries(output_.path()), Names{"checkpoint-10"});
  }
}

TEST_F(Resume, AFullDiskLeavesThePreviousCheckpointAndNoHalfOne) {
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
    const char* at_fault = bytes == rlim_t{1} << 20 ? "checkpoint-20.tmp" : "training_state.safetensors";
    EXPECT_NE(std::string(writer.failed_path()).find(at_fault), std::string::npos) << writer.failed_path();
    EXPECT_EQ(folder_entries(output_.path()), Names{"checkpoint-10"});
    EXPECT_EQ(newest()->global_step, 10);
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(save(writer, 20).ok());
  EXPECT_EQ(folder_entries(output_.path()), Names{"checkpoint-20"});
}

TEST_F(Resume, MoreReplacementsThanPlannedAreRefused) {
  CheckpointContents small = contents();
  small.max_replacements = 10;
  CheckpointWriter writer(small);
  const std::vector<Replacement> many(1000, Replacement{1000000, 1000000, 1000000, 1000000, 1000000});
  CheckpointMoment moment;
  moment.texts = Span<const std::string_view>(&text_, 1);
  moment.replacements = many;
  EXPECT_EQ(writer.save(moment).detail[0], EOVERFLOW);
  moment.replacements = Span<const Replacement>(many.data(), 10);
  EXPECT_TRUE(writer.save(moment).ok());
}

TEST_F(Resume, ACheckpointThatLacksANumberSaysSo) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 40).ok());
  test::expect_data_error("holds no number \"tokens\"", [&] { newest()->number("tokens"); });
}

TEST_F(Resume, AnOutputFolderOfSomebodyElseIsToldApart) {
  EXPECT_EQ(classify_output_dir(output_.path() + "/absent"), OutputDir::kFree);
  EXPECT_EQ(classify_output_dir(output_.path()), OutputDir::kFree);
  std::filesystem::create_directory(output_.path() + "/checkpoint-1.tmp");
  EXPECT_EQ(classify_output_dir(output_.path()), OutputDir::kFree);
  output_.write("thesis.tex", "");
  EXPECT_EQ(classify_output_dir(output_.path()), OutputDir::kOther);
  std::filesystem::create_directory(output_.path() + "/checkpoint-latest");
  EXPECT_EQ(classify_output_dir(output_.path()), OutputDir::kOther);
  output_.write("bascule.json", "{}");
  EXPECT_EQ(classify_output_dir(output_.path()), OutputDir::kOurs);
}

}  // namespace
}  // namespace bascule
