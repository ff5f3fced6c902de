// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/find_checkpoint.h"

#include <filesystem>

#include <sys/wait.h>
#include <unistd.h>

#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "tests/checkpoint/saved_run.h"
#include "tests/support/seeded.h"

namespace bascule {
namespace {

class FindCheckpoint : public test::SavedRun {
 protected:
  FindCheckpoint() {
    CheckpointWriter writer(contents());
    for (const std::int64_t step : {10, 20, 30}) EXPECT_TRUE(save(writer, step).ok());
  }

  // The newest must be refused with both texts in the line, and "older" must find the one of step 20 and say so.
  void expect_refused(const std::string& file, const std::string& problem) {
    const std::string line = test::error_of([&] { newest(); });
    EXPECT_EQ(line.find(folder(30) + "/" + file), 0u) << line;
    EXPECT_NE(line.find(problem), std::string::npos) << line;
    EXPECT_NE(line.find("training.resume = \"older\" resumes from checkpoint-20 and loses 10 updates"),
              std::string::npos)
        << line;
    EXPECT_EQ(newest({true, ""})->global_step, 20);
    ASSERT_EQ(notes_.size(), 1u);
    EXPECT_EQ(notes_[0].find("skipping checkpoint-30 ("), 0u) << notes_[0];
    EXPECT_NE(notes_[0].find("resuming from checkpoint-20, 10 updates lost"), std::string::npos) << notes_[0];
  }
};

TEST_F(FindCheckpoint, TheNewestIsFoundAndNothingIsSaid) {
  EXPECT_EQ(newest()->global_step, 30);
  EXPECT_EQ(newest({true, ""})->global_step, 30);
  EXPECT_EQ(notes_, std::vector<std::string>{});
}

TEST_F(FindCheckpoint, NothingToGoOnFromIsNoError) {
  const test::TemporaryFolder empty;
  for (const std::string& folder : {empty.path(), empty.path() + "/absent"}) {
    EXPECT_FALSE(find_checkpoint(folder, {}, CheckpointCheck::kContents, &notes_).has_value());
    EXPECT_FALSE(find_checkpoint(folder, {true, ""}, CheckpointCheck::kContents, &notes_).has_value());
  }
}

TEST_F(FindCheckpoint, FilesCutShortOrMissingAreRefused) {
  std::filesystem::resize_file(folder(30) + "/model.safetensors", 1000);
  expect_refused("model.safetensors", "has 1000 bytes instead of ");
  std::filesystem::remove(folder(30) + "/model.safetensors");
  expect_refused("model.safetensors", "cannot be opened");
}

TEST_F(FindCheckpoint, AStateCutShortIsRefused) {
  const std::string path = folder(30) + "/bascule_state.json";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_refused("bascule_state.json", "is damaged");
  std::filesystem::resize_file(path, 50);
  expect_refused("bascule_state.json", "");
  std::filesystem::resize_file(path, 0);
  expect_refused("bascule_state.json", "");
}

TEST_F(FindCheckpoint, AnotherFormatIsRefusedByItsNumber) {
  const std::string path = folder(30) + "/bascule_state.json";
  Json state = read_json_file(path);
  state["format"] = 4;
  std::ofstream(path) << json_text(state);
  expect_refused("bascule_state.json",
                 "has format 4, this program reads 2 to 3; use the version of Bascule that saved it");
}

TEST_F(FindCheckpoint, ACheckpointOfAnotherStepThanItsNameIsRefused) {
  std::filesystem::remove_all(folder(30));
  std::filesystem::copy(folder(10), folder(30), std::filesystem::copy_options::recursive);
  expect_refused("bascule_state.json", "belongs to step 10");
}

TEST_F(FindCheckpoint, AFlippedBitAnywhereIsRefused) {
  test::Seeded random;
  for (const std::string& name : folder_entries(folder(30))) {
    const std::string path = folder(30) + "/" + name;
    const std::string whole = test::read_file(path);
    for (int i = 0; i < 3; ++i) {
      const auto byte = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(whole.size()) - 1));
      const auto bit = static_cast<int>(random.integer(0, 7));
      SCOPED_TRACE(name + ", bit " + std::to_string(bit) + " of byte " + std::to_string(byte));
      flip_bit(path, byte, bit);
      expect_refused(name, "");
      std::ofstream(path, std::ios::binary) << whole;
    }
  }
  EXPECT_EQ(newest()->global_step, 30);
}

TEST_F(FindCheckpoint, AFlippedBitOfTheStateIsSeenWithoutReadingTheRest) {
  const std::string path = folder(30) + "/bascule_state.json";
  const std::string whole = test::read_file(path);
  for (std::size_t byte = 0; byte < whole.size(); byte += 5) {
    flip_bit(path, byte, static_cast<int>(byte / 5 % 8));
    EXPECT_THROW(find_checkpoint(output_.path(), {}, CheckpointCheck::kHeaders, &notes_), Error) << byte;
    std::ofstream(path, std::ios::binary) << whole;
  }
  flip_bit(folder(30) + "/model.safetensors", 5000, 3);
  EXPECT_EQ(find_checkpoint(output_.path(), {}, CheckpointCheck::kHeaders, &notes_)->global_step, 30);
}

TEST_F(FindCheckpoint, ACheckpointOfBeforeTheChecksumsIsRead) {
  for (const std::int64_t step : {10, 20, 30}) {
    const std::string path = folder(step) + "/bascule_state.json";
    Json state = read_json_file(path);
    state["format"] = 2;
    for (const char* key : {"resumed_from", "xxh3"}) state.items().erase(key);
    for (auto& [name, file] : state["files"].items()) file = Json(file["bytes"]);
    std::ofstream(path) << json_text(state);
  }
  EXPECT_EQ(newest()->global_step, 30);
  EXPECT_EQ(newest()->number("loss_sum"), 0.1 + 0.2);
  std::filesystem::resize_file(folder(30) + "/training_state.safetensors", 1000);
  expect_refused("training_state.safetensors", "has 1000 bytes instead of ");
}

// Its digest may be right: another program wrote it.
TEST_F(FindCheckpoint, AStateOfANumberOfRowsThatNoFileHasIsRefused) {
  const std::string path = folder(30) + "/bascule_state.json";
  Json state = read_json_file(path);
  state["format"] = 2;
  for (const char* key : {"resumed_from", "xxh3"}) state.items().erase(key);
  for (auto& [name, file] : state["files"].items()) file = Json(file["bytes"]);
  for (const char* const count : {"-1", "9223372036854775807"}) {
    state["rows"] = parse_json(std::string(R"({"count": )") + count + R"(, "blocks": [], "taken_out": []})", "rows");
    state["bad_rows"] = Json::array();
    std::ofstream(path) << json_text(state);
    expect_refused("bascule_state.json", std::string("rows has the count ") + count);
    notes_.clear();
  }
}

TEST_F(FindCheckpoint, OneThatMayNotBeLookedIntoIsRefused) {
  std::filesystem::permissions(output_.path(), std::filesystem::perms::others_all, std::filesystem::perm_options::add);
  std::filesystem::permissions(folder(30), std::filesystem::perms::none);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    expect_refused("bascule_state.json", "cannot be opened: Permission denied");
    ::_exit(HasFailure() ? 1 : 0);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  std::filesystem::permissions(folder(30), std::filesystem::perms::owner_all);
}

TEST_F(FindCheckpoint, WhereNoneCanBeUsedThatIsSaidWhateverIsAskedFor) {
  for (const std::int64_t step : {10, 20, 30}) std::filesystem::resize_file(folder(step) + "/config.json", 1);
  for (const bool may_be_older : {false, true}) {
    const std::string line = test::error_of([&] { newest({may_be_older, ""}); });
    EXPECT_EQ(line, folder(30) +
                        "/config.json: has 1 bytes instead of 3; no older checkpoint is usable; to start again, choose "
                        "another output_dir");
  }
}

TEST_F(FindCheckpoint, WhatHasTheNameOfOneAndIsNoneStopsTheRun) {
  std::filesystem::remove(folder(30) + "/bascule_state.json");
  EXPECT_EQ(test::error_of([&] {
              newest({true, ""});
            }),
            folder(30) + ": lacks its bascule_state.json; restore it, or move checkpoint-30 away");
  std::filesystem::remove_all(folder(30));
  output_.write("checkpoint-7", "a file");
  std::filesystem::create_directory(output_.path() + "/checkpoint-0030");  // not as we write a name
  const std::string line = test::error_of([&] { newest({true, ""}); }, ErrorKind::kSettings);
  EXPECT_EQ(line, folder(7) + ": is not a Bascule checkpoint; move it out of this folder");
}

TEST_F(FindCheckpoint, ANamedCheckpointIsTheBeginningUntilTheRunHasSavedOneOfItsOwn) {
  const ResumeChoice from_10{false, folder(10)};
  EXPECT_TRUE(begins_again(output_.path(), from_10));
  std::optional<ResumePoint> point = newest(from_10);
  EXPECT_EQ(point->global_step, 10);
  EXPECT_EQ(point->resumed_from, folder(10));
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0], "restarting from update 10: the next save removes checkpoint-30 and all later ones");

  CheckpointContents again = contents();
  again.resumed_from = point->resumed_from;
  CheckpointWriter writer(std::move(again));
  ASSERT_TRUE(save(writer, 15).ok());
  EXPECT_EQ(folder_entries(output_.path()), (std::vector<std::string>{"checkpoint-10", "checkpoint-15"}));
  EXPECT_FALSE(begins_again(output_.path(), from_10));
  point = newest(from_10);
  EXPECT_EQ(point->global_step, 15);
  EXPECT_EQ(point->resumed_from, folder(10));
  EXPECT_EQ(notes_, std::vector<std::string>{});
  EXPECT_EQ(newest()->global_step, 15);
}

TEST_F(FindCheckpoint, ANamedCheckpointMayLieElsewhereAndMustBeWhole) {
  const test::TemporaryFolder other;
  const std::string best = other.path() + "/best";
  std::filesystem::copy(folder(20), best, std::filesystem::copy_options::recursive);
  const std::string output = other.path() + "/run";
  EXPECT_EQ(find_checkpoint(output, {false, best}, CheckpointCheck::kContents, &notes_)->global_step, 20);
  flip_bit(best + "/model.safetensors", 5000, 3);
  test::expect_data_error(best + "/model.safetensors: is damaged", [&] {
    find_checkpoint(output, {false, best}, CheckpointCheck::kContents, &notes_);
  });
  test::expect_data_error("absent: is not a checkpoint: it has no bascule_state.json", [&] {
    find_checkpoint(output, {false, other.path() + "/absent"}, CheckpointCheck::kHeaders, &notes_);
  });
}

}  // namespace
}  // namespace bascule
