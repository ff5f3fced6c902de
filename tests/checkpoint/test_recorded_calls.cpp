// SPDX-License-Identifier: Apache-2.0
// Checks what a power cut may find: nothing has its final name before it is on the disk, and no old checkpoint goes
// before the new one has its name.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_writer.h"
#include "src/files/durable_write.h"
#include "tests/checkpoint/files.h"
#include "tests/checkpoint/recorded_calls.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::RecordedCalls;
using test::TemporaryFolder;
using Calls = std::vector<std::string>;

// Where a call stands; the end where it was not made.
std::ptrdiff_t place_of(const Calls& calls, const std::string& call) {
  return std::find(calls.begin(), calls.end(), call) - calls.begin();
}

bool begins_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

// Every file that was written below `folder` is synced behind its last write.
void expect_all_synced(const Calls& calls, const std::string& folder) {
  int files = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!begins_with(calls[i], "write " + folder)) continue;
    const std::string sync = "sync" + calls[i].substr(5);
    EXPECT_NE(std::find(calls.begin() + static_cast<std::ptrdiff_t>(i), calls.end(), sync), calls.end()) << calls[i];
    ++files;
  }
  EXPECT_GE(files, 3);
}

TEST(RecordedCalls, AFileIsSyncedThenNamedThenItsFolderIsSynced) {
  const TemporaryFolder folder;
  const RecordedCalls recorded(folder.path());
  ASSERT_TRUE(write_durably(folder.path().c_str(), "a.json", "new").ok());
  EXPECT_EQ(recorded.calls(), (Calls{"write .tmp-bascule-a.json", "sync .tmp-bascule-a.json",
                                     "rename .tmp-bascule-a.json a.json", "sync ."}));
}

TEST(RecordedCalls, AFileIsWholeWhateverSignalsComeAndHoweverLittleAWriteTakes) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 2000; ++i) content += std::to_string(i) + " ";
  RecordedCalls recorded(folder.path());
  recorded.disturb_writes();
  ASSERT_TRUE(write_durably(folder.path().c_str(), "a.json", content).ok());
  EXPECT_EQ(test::read_file(folder.path() + "/a.json"), content);
}

TEST(RecordedCalls, AFolderIsSyncedThenNamedThenTheOneAboveIsSynced) {
  const TemporaryFolder folder;
  for (const bool exists : {false, true}) {
    std::filesystem::create_directory(folder.path() + "/.tmp-bascule-x");
    if (exists) folder.write("x/file", "an empty folder would be replaced");
    const RecordedCalls recorded(folder.path());
    ASSERT_TRUE(publish_folder(folder.path().c_str(), "x").ok());
    const Calls expected = exists ? Calls{"sync .tmp-bascule-x", "exchange .tmp-bascule-x x", "sync .",
                                          "remove .tmp-bascule-x/file", "remove .tmp-bascule-x"}
                                  : Calls{"sync .tmp-bascule-x", "rename .tmp-bascule-x x", "sync ."};
    EXPECT_EQ(recorded.calls(), expected);
  }
}

TEST(RecordedCalls, AFolderOnItsWayOutLosesItsNameForGoodBeforeItsFilesGo) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/x");
  folder.write("x/file", "x");
  const RecordedCalls recorded(folder.path());
  ASSERT_TRUE(remove_folder(folder.path().c_str(), "x").ok());
  EXPECT_EQ(recorded.calls(), (Calls{"rename x .tmp-bascule-x.deleting", "sync .",
                                     "remove .tmp-bascule-x.deleting/file", "remove .tmp-bascule-x.deleting"}));
}

TEST(RecordedCalls, AFolderThatIsMadeIsSyncedIntoTheOneAbove) {
  const TemporaryFolder folder;
  const RecordedCalls recorded(folder.path());
  make_folders(folder.path() + "/a/b");
  EXPECT_EQ(recorded.calls(), (Calls{"sync .", "sync a"}));
}

TEST(RecordedCalls, ACheckpointIsWholeOnTheDiskBeforeItHasItsNameAndAnOlderOneGoes) {
  const TemporaryFolder folder;
  std::vector<float> values(1000, 1.5f);
  CheckpointContents contents;
  contents.output_dir = folder.path();
  contents.save_total_limit = 1;
  contents.model.config_json = "{}\n";
  contents.model.tensors = {{"w", DType::kFloat32, {1000}, values.data()}};
  contents.optimizer = {{"exp_avg.w", DType::kFloat32, {1000}, values.data()}};
  contents.text_files = {"records.bin"};
  CheckpointWriter writer(std::move(contents));
  const std::string_view text = "records";
  CheckpointMoment moment;
  moment.texts = Span<const std::string_view>(&text, 1);
  for (const std::int64_t step : {5, 10}) {
    moment.global_step = step;
    const RecordedCalls recorded(folder.path());
    ASSERT_TRUE(writer.save(moment).ok());
    const Calls calls = recorded.calls();
    const std::string name = "checkpoint-" + std::to_string(step), half = ".tmp-bascule-" + name;
    const std::ptrdiff_t named = place_of(calls, "rename " + half + " " + name);
    ASSERT_LT(named + 1, static_cast<std::ptrdiff_t>(calls.size()));
    expect_all_synced(Calls(calls.begin(), calls.begin() + named), half + "/");
    EXPECT_EQ(calls[static_cast<std::size_t>(named) - 1], "sync " + half);
    EXPECT_EQ(calls[static_cast<std::size_t>(named) + 1], "sync .");
    if (step == 10) {
      EXPECT_GT(place_of(calls, "rename checkpoint-5 .tmp-bascule-checkpoint-5.deleting"), named + 1);
    }
  }
  EXPECT_EQ(folder_entries(folder.path()), Calls{"checkpoint-10"});
}

TEST(RecordedCalls, AFinishedModelsFilesAreSyncedThenNamed) {
  const TemporaryFolder folder;
  std::vector<float> values(1000, 1.5f);
  HfFolderContents contents;
  contents.config_json = "{}\n";
  contents.tensors = {{"w", DType::kFloat32, {1000}, values.data()}};
  const HfFolderPlan plan(std::move(contents));
  const RecordedCalls recorded(folder.path());
  ASSERT_TRUE(plan.write_durably_into(folder.path().c_str()).ok());
  Calls expected;
  for (const char* name : {"model.safetensors", "config.json"}) {
    const std::string half = ".tmp-bascule-" + std::string(name);
    expected.insert(expected.end(), {"write " + half, "sync " + half, "rename " + half + " " + name, "sync ."});
  }
  EXPECT_EQ(recorded.calls(), expected);
}

}  // namespace
}  // namespace bascule
