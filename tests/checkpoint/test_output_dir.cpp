// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/find_checkpoint.h"

#include <filesystem>

#include "tests/checkpoint/saved_run.h"

namespace bascule {
namespace {

constexpr char kMarker[] = R"({"finished": false, "settings_digest": "0123456789abcdef"})";

class OutputFolder : public test::SavedRun {
 protected:
  OutputDirKind kind() { return classify_output_dir(output_.path()).kind; }
  void add_folder(const std::string& name) { std::filesystem::create_directory(output_.path() + "/" + name); }
};

TEST_F(OutputFolder, AbsentEmptyAndHiddenFilesAloneAreFree) {
  EXPECT_EQ(classify_output_dir(output_.path() + "/absent").kind, OutputDirKind::kFree);
  EXPECT_EQ(kind(), OutputDirKind::kFree);
  add_folder("lost+found");
  add_folder(".bascule-launcher");
  output_.write(".tmp-bascule-bascule.json", "{");
  output_.write(".nfs0001", "");
  EXPECT_EQ(kind(), OutputDirKind::kFree);
}

TEST_F(OutputFolder, WhatHoldsAnythingElseIsOfSomebodyElse) {
  for (const char* name : {"thesis.tex", "checkpoint-500", "checkpoint-1.tmp", "checkpoint-latest", "bascule.json"}) {
    const test::TemporaryFolder folder;
    folder.write(name, "{}");
    const OutputDir found = classify_output_dir(folder.path());
    EXPECT_EQ(found.kind, OutputDirKind::kOther) << name;
    EXPECT_EQ(found.problem, "contains other files (" + std::string(name) + ")");
  }
}

TEST_F(OutputFolder, CheckpointsWithoutOurStateDoNotMakeItOurs) {
  add_folder("checkpoint-500");
  EXPECT_EQ(kind(), OutputDirKind::kOther);
  output_.write("checkpoint-500/trainer_state.json", "{}");
  output_.write("checkpoint-500/model.safetensors", "");
  EXPECT_EQ(kind(), OutputDirKind::kOther);
  output_.write("checkpoint-500/bascule_state.json", "");
  EXPECT_EQ(kind(), OutputDirKind::kOurs);
}

TEST_F(OutputFolder, TheMarkerMakesItOursWithAndWithoutAFormat) {
  output_.write("notes.txt", "");
  output_.write("bascule.json", kMarker);
  EXPECT_EQ(kind(), OutputDirKind::kOurs);
  output_.write("bascule.json", R"({"format": 1, "finished": true, "settings_digest": ""})");
  EXPECT_EQ(kind(), OutputDirKind::kOurs);
  output_.write("bascule.json", R"({"format": 2, "finished": true, "settings_digest": ""})");
  test::expect_data_error("bascule.json: has format 2, this program reads 1 to 1", [&] { kind(); });
}

TEST_F(OutputFolder, AMarkerOfSomebodyElseBesideOurCheckpointsStopsTheRun) {
  CheckpointWriter writer(contents());
  ASSERT_TRUE(save(writer, 10).ok());
  EXPECT_EQ(kind(), OutputDirKind::kOurs);
  output_.write("bascule.json", R"({"version": 3})");
  test::expect_data_error("bascule.json: is damaged, or was not written by Bascule", [&] { kind(); });
}

TEST_F(OutputFolder, AFileALinkThatLeadsNowhereAndALinkToSomebodyElsesAreRefused) {
  const std::string file = output_.write("file", "");
  EXPECT_EQ(classify_output_dir(file).problem, "is not a folder");
  const std::string link = output_.path() + "/link";
  std::filesystem::create_symlink(output_.path() + "/nowhere", link);
  EXPECT_EQ(classify_output_dir(link).problem, "is a dangling symbolic link");
  for (const char* below : {"/run", "/runs/first", "/run/"}) {
    EXPECT_EQ(classify_output_dir(file + below).problem, "lies below " + file + ", which is not a folder");
    EXPECT_EQ(classify_output_dir(link + below).problem, "lies below " + link + ", which is a dangling symbolic link");
    EXPECT_EQ(classify_output_dir(output_.path() + "/absent" + below).problem, "");
  }
  std::filesystem::remove(link);
  std::filesystem::create_symlink(output_.path(), link);
  EXPECT_EQ(classify_output_dir(link).problem, "contains other files (file)");
}

}  // namespace
}  // namespace bascule
