// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_folder.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "src/base/error.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "src/pictures/picture_log.h"
#include "src/run_folder/run_marker.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

bool can_lock(const std::string& folder, int how) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool is_free = flock(file, how | LOCK_NB) == 0;
  close(file);
  return is_free;
}

bool can_lock_alone(const std::string& folder) { return can_lock(folder, LOCK_EX); }

// A launcher may be killed; its rank 0 then still writes for a moment.
TEST(FolderLock, IsHeldUntilTheLastOfLauncherAndRankHasGone) {
  const TemporaryFolder folder;
  Settings settings;
  settings.run.output_dir.resolved = folder.path() + "/run";
  std::optional<FolderLock> launcher(std::in_place, settings.run, settings.origin, FolderUser::kLauncher);
  std::optional<FolderLock> rank(std::in_place, settings.run, settings.origin, FolderUser::kRank);
  EXPECT_FALSE(can_lock_alone(settings.run.output_dir.resolved));
  launcher.reset();
  EXPECT_FALSE(can_lock_alone(settings.run.output_dir.resolved));
  rank.reset();
  EXPECT_TRUE(can_lock_alone(settings.run.output_dir.resolved));
}

TEST(FolderLock, OneProcessHoldsItAlone) {
  const TemporaryFolder folder;
  Settings settings;
  settings.run.output_dir.resolved = folder.path() + "/run";
  const FolderLock lock(settings.run, settings.origin, FolderUser::kProcess);
  EXPECT_FALSE(can_lock_alone(settings.run.output_dir.resolved));
  EXPECT_FALSE(can_lock(settings.run.output_dir.resolved, LOCK_SH)) << "of a second run";
}

// Where it waited for ranks of an earlier run, which hold the folder together with their launcher. Standard error tells
// when it waits.
TEST(FolderLock, OneProcessHoldsItAloneAfterAWaitToo) {
  const TemporaryFolder folder;
  Settings settings;
  settings.run.output_dir.resolved = folder.path();
  const int rank = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(rank, LOCK_SH | LOCK_NB), 0);
  int said[2];
  ASSERT_EQ(pipe(said), 0);
  const int usual = dup(STDERR_FILENO);
  dup2(said[1], STDERR_FILENO);
  std::thread ends([&] {
    char line[256];
    EXPECT_GT(read(said[0], line, sizeof line), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // several looks
    close(rank);
  });
  std::optional<FolderLock> lock;
  EXPECT_NO_THROW(lock.emplace(settings.run, settings.origin, FolderUser::kProcess));
  dup2(usual, STDERR_FILENO);
  for (const int file : {said[1], usual}) close(file);
  ends.join();
  close(said[0]);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(can_lock(folder.path(), LOCK_SH));
}

// is_in_use() of a command that lists runs takes the lock for an instant.
TEST(FolderLock, ALookAtTheFolderKeepsNobodyOut) {
  const TemporaryFolder folder;
  Settings settings;
  settings.run.output_dir.resolved = folder.path();
  for (const FolderUser user : {FolderUser::kProcess, FolderUser::kLauncher, FolderUser::kRank}) {
    const int look = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(flock(look, LOCK_EX | LOCK_NB), 0);
    std::thread ends([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      close(look);
    });
    std::optional<FolderLock> lock;
    testing::internal::CaptureStderr();
    EXPECT_NO_THROW(lock.emplace(settings.run, settings.origin, user));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "and is not said to wait for a run";
    ends.join();
  }
}

// Each of them holds the lock for an instant.
TEST(FolderLock, SeveralThatLookAtOnceTakeNoneOfThemForARun) {
  const TemporaryFolder folder;
  std::atomic<int> seen_running{0};
  std::vector<std::thread> lookers;
  for (int i = 0; i < 4; ++i) {
    lookers.emplace_back([&] {
      for (int look = 0; look < 500; ++look) seen_running += is_in_use(folder.path()) ? 1 : 0;
    });
  }
  for (std::thread& looker : lookers) looker.join();
  EXPECT_EQ(seen_running, 0);
  Settings settings;
  settings.run.output_dir.resolved = folder.path();
  const FolderLock run(settings.run, settings.origin, FolderUser::kProcess);
  EXPECT_TRUE(is_in_use(folder.path()));
}

// Its rank 0 finds a folder that the launcher has cleared.
TEST(FolderLock, ClearsAwayWhatAKilledProcessHasLeftUnfinished) {
  for (const FolderUser user : {FolderUser::kProcess, FolderUser::kLauncher, FolderUser::kRank}) {
    const TemporaryFolder folder;
    Settings settings;
    settings.run.output_dir.resolved = folder.path();
    folder.write(".tmp-bascule-pictures.xxh3", "half");
    folder.write("pictures.xxh3", "whole");
    const FolderLock lock(settings.run, settings.origin, user);
    EXPECT_EQ(std::filesystem::exists(folder.path() + "/.tmp-bascule-pictures.xxh3"), user == FolderUser::kRank);
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/pictures.xxh3"));
  }
}

// A folder that holds what a test puts there, and the settings of a run that is started in it.
class Folder : public testing::Test {
 protected:
  Folder() {
    settings_.run.output_dir.resolved = settings_.run.output_dir.written = folder_.path();
    settings_.training.do_train = true;
  }
  void add_checkpoint() const {
    std::filesystem::create_directory(folder_.path() + "/checkpoint-3");
    folder_.write("checkpoint-3/bascule_state.json", "{}");
  }
  void remove_checkpoint() const { std::filesystem::remove_all(folder_.path() + "/checkpoint-3"); }
  void mark(bool finished, bool trained) {
    Settings settings = settings_;
    settings.training.do_train = trained;
    write_run_marker(settings, {finished, 3, 0}, {}, {});
  }
  // What is wrong; "" where the run may start.
  std::string refusal() const {
    try {
      (void)is_finished_and_clear(settings_);
    } catch (const Error& error) {
      return error.problem();
    }
    return "";
  }

  TemporaryFolder folder_;
  Settings settings_;
};

TEST_F(Folder, ThatHoldsARunIsRefusedWhereNothingMayBeResumed) {
  settings_.run.resume = Resume::kNever;
  EXPECT_EQ(refusal(), "");
  mark(false, true);
  EXPECT_EQ(refusal(), "") << "a run that was stopped before its first checkpoint";
  add_checkpoint();
  EXPECT_NE(refusal().find("already holds a run, and training.resume = \"never\""), std::string::npos) << refusal();
  remove_checkpoint();
  mark(true, true);
  EXPECT_NE(refusal().find("already holds a run, and training.resume = \"never\""), std::string::npos) << refusal();
}

TEST_F(Folder, OfATrainingRunIsNotOverwrittenByAnEvaluation) {
  settings_.training.do_train = false;
  mark(false, true);
  EXPECT_EQ(refusal(), "");
  add_checkpoint();
  EXPECT_NE(refusal().find("holds a training run, but this one does not train"), std::string::npos) << refusal();
  remove_checkpoint();
  mark(true, true);
  EXPECT_NE(refusal().find("holds a training run, but this one does not train"), std::string::npos) << refusal();
  mark(true, false);
  EXPECT_EQ(refusal(), "") << "its own";
}

TEST_F(Folder, OfAnEvaluationIsNotOverwrittenByATrainingRun) {
  mark(false, false);
  EXPECT_EQ(refusal(), "");
  mark(true, false);
  EXPECT_NE(refusal().find("holds the results of an evaluation, but this run trains"), std::string::npos) << refusal();
}

// Such as a repeated evaluation that found no room on the disk.
TEST_F(Folder, OfAFinishedRunKeepsNothingUnfinished) {
  settings_.training.do_train = false;
  mark(true, false);
  const std::string unfinished = folder_.path() + "/.tmp-bascule-pictures.xxh3";
  folder_.write(".tmp-bascule-pictures.xxh3", "half");
  EXPECT_TRUE(is_finished_and_clear(settings_));
  EXPECT_FALSE(std::filesystem::exists(unfinished));
}

// What classify and search read, so that they prepare pictures and texts as the run did.
TEST_F(Folder, SaysHowItsRunPreparedPicturesAndTexts) {
  DataSettings& data = settings_.data;
  const auto marked = [&] {
    mark(true, true);
    return read_json_file(folder_.path() + "/" + kRunMarkerFile);
  };
  data.preprocessing = Preprocessing::kTraining;
  data.interpolation = Interpolation::kBilinear;
  data.eval_crop_ratio = 0.5;
  data.max_seq_length = 7;
  const Json one = marked();
  EXPECT_EQ(one["preprocessing"], "training");
  EXPECT_EQ(one["interpolation"], "bilinear");
  EXPECT_EQ(one["eval_crop_ratio"], 0.5);
  EXPECT_EQ(one["max_seq_length"], 7);
  data.preprocessing = Preprocessing::kProcessor;
  data.interpolation = Interpolation::kBicubic;
  const Json other = marked();
  EXPECT_EQ(other["preprocessing"], "processor");
  EXPECT_EQ(other["interpolation"], "bicubic");
}

TEST_F(Folder, ItsMarkerSaysHowFarTheRunIs) {
  RunMarker marker = read_run_marker(folder_.path());
  EXPECT_FALSE(marker.exists || marker.finished || marker.trained || marker.is_whole());
  write_run_marker(settings_, {false, 5, 4}, {}, {}, Json(), {{"b", "2"}, {"a", "1"}});
  marker = read_run_marker(folder_.path());
  EXPECT_TRUE(marker.exists);
  EXPECT_FALSE(marker.finished || marker.trained || marker.draws || marker.is_whole());
  EXPECT_EQ(marker.global_step, 5);
  EXPECT_EQ(marker.not_finite_at, 4);
  EXPECT_EQ(marker.settings_digest, settings_digest(settings_));
  EXPECT_EQ(marker.settings, print_settings(settings_));
  ASSERT_EQ(marker.drawn_from.size(), 2U);
  EXPECT_EQ(marker.drawn_from[0].name + marker.drawn_from[0].value + marker.drawn_from[1].name, "a1b");
  write_run_marker(settings_, {true, 6, 0}, {}, {{"tool", "x"}}, Json("the record"));
  marker = read_run_marker(folder_.path());
  EXPECT_TRUE(marker.finished && marker.trained && marker.is_whole());
  EXPECT_EQ(marker.global_step, 6);
  EXPECT_EQ(marker.not_finite_at, 0);
  EXPECT_TRUE(marker.drawn_from.empty());
  const Json json = read_json_file(folder_.path() + "/" + kRunMarkerFile);
  EXPECT_FALSE(json.contains("not_finite_at") || json.contains("drawn_from") || json.contains("replaced"));
  EXPECT_EQ(json["record"], "the record");
  EXPECT_EQ(json["provenance"]["tool"], "x");
  for (const Replaced what : {Replaced::kWeights, Replaced::kResults}) {
    mark_replaced(folder_.path(), what);
    marker = read_run_marker(folder_.path());
    EXPECT_EQ(marker.replaced, what);
    EXPECT_TRUE(marker.finished && !marker.is_whole());
  }
  mark(true, false);
  EXPECT_FALSE(read_run_marker(folder_.path()).trained);
  EXPECT_TRUE(read_run_marker(folder_.path()).is_whole());
  folder_.write(kRunMarkerFile, R"({"finished": 1})");
  EXPECT_THROW(read_run_marker(folder_.path()), Error);
}

TEST_F(Folder, OfAFinishedRunTakesChangesThatLeaveItsResults) {
  settings_.model.model_name_or_path.written = "m";
  settings_.data.train_file = PathsSetting("t.jsonl");
  mark(true, true);
  EXPECT_NE(refusal().find("the weights of the finished run are gone: holds no weights"), std::string::npos)
      << refusal();
  EXPECT_TRUE(SafetensorsWritePlan({}).write((folder_.path() + "/model.safetensors").c_str()).ok());
  EXPECT_EQ(refusal(), "");
  settings_.report.html = !settings_.report.html;
  EXPECT_EQ(refusal(), "") << "changes no result";
  settings_.data.ring_slots += 1;
  settings_.run.seed = 7;
  EXPECT_EQ(refusal(), "training.seed is 7, but the finished run in " + folder_.path() + " had 42");
}

TEST_F(Folder, OfAFinishedRunStaysMarkedWhereItIsOnlyEvaluatedAgain) {
  for (const bool again : {true, false}) {
    mark(true, true);
    RecordedRun run(settings_);
    if (again) run.resume.finished.emplace();
    prepare_folder(run, best_isa());
    EXPECT_TRUE(read_run_marker(folder_.path()).finished) << "the start may still be refused";
    mark_begun(run, best_isa());
    EXPECT_EQ(read_run_marker(folder_.path()).finished, again);
  }
}

TEST_F(Folder, HasNoFileWhereTheAverageWillBe) {
  settings_.training.ema_decay = 0.9;
  EXPECT_EQ(refusal(), "");
  mark(false, true);
  std::filesystem::create_directory(folder_.path() + "/ema");
  EXPECT_EQ(refusal(), "") << "of an earlier run";
  std::filesystem::remove(folder_.path() + "/ema");
  folder_.write("ema", "notes");
  EXPECT_NE(refusal().find("/ema is not a folder"), std::string::npos) << refusal();
  settings_.training.ema_decay = 0.0;
  EXPECT_EQ(refusal(), "") << "no average is written";
}

TEST(RemovePictures, ThoseOfTheLogGoToo) {
  const TemporaryFolder folder;
  for (const char* name : {"00000.png", "00001.png", "own.png"}) folder.write(name, "");
  folder.write(kPictureLogFile,
               "{\"file\": \"00000.png\", \"prompt\": \"a fox\", \"negative_prompt\": \"\", \"seed\": 42, "
               "\"noise\": 7, \"seconds\": 1.23, \"digest\": \"00000000000000ff\", \"latents\": "
               "[\"0000000000000abc\", \"ffffffffffffffff\"], \"check\": \"ed3c589330594ecb\"}\n");
  remove_pictures(folder.path(), {"00001.png"});
  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/own.png"));
}

}  // namespace
}  // namespace bascule::test
