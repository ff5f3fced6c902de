// SPDX-License-Identifier: Apache-2.0
#include "src/base/paths.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

// Stands in another folder while it lives.
class StandingIn {
 public:
  explicit StandingIn(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~StandingIn() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

class ShownPath : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::canonical(testing::TempDir()) / ("shown_path_" + std::to_string(getpid()));
    std::filesystem::create_directories(root_ / "project" / "config");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string at(const char* path) const { return (root_ / path).string(); }

  std::filesystem::path root_;
};

TEST_F(ShownPath, WhatLiesInTheCurrentFolderIsNamedFromThere) {
  const StandingIn here(root_ / "project");
  EXPECT_EQ(shown_path(at("project/data/train.jsonl:17")), "data/train.jsonl:17");
  EXPECT_EQ(shown_path(at("project")), ".");
}

TEST_F(ShownPath, ANeighbourIsNamedThroughTheFolderAbove) {
  const StandingIn here(root_ / "project" / "config");
  EXPECT_EQ(shown_path(at("project/runs/demo")), "../runs/demo");
  EXPECT_EQ(shown_path(at("project/configuration")), "../configuration");  // begins like the current folder
}

TEST_F(ShownPath, TheShorterFormIsShown) {
  const StandingIn here(root_ / "project" / "config");
  EXPECT_EQ(shown_path("/etc/passwd"), "/etc/passwd");
  EXPECT_EQ(shown_path("data/train.jsonl"), "data/train.jsonl");
  EXPECT_EQ(shown_path("update 3"), "update 3");
  EXPECT_EQ(shown_path(""), "");
}

TEST_F(ShownPath, ErrorsShowTheirPlaceSo) {
  const StandingIn here(root_ / "project");
  const Error error(ErrorKind::kData, at("project/train.jsonl:3"), "no rows");
  EXPECT_STREQ(error.what(), "train.jsonl:3: no rows");
}

TEST(ShownList, TheFirstNamesAreSaidAndTheRestIsCounted) {
  EXPECT_EQ(joined({}), "");
  EXPECT_EQ(joined({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(joined({"a", "b"}, " | "), "a | b");
  EXPECT_EQ(shown_list({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(shown_list({"a", "b", "c", "d"}), "a, b, c and 1 more");
  EXPECT_EQ(shown_list({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

TEST(QuestionsToTheDisk, NamesAreSortedAndNothingThrows) {
  const test::TemporaryFolder folder;
  for (const char* const name : {"d", "b", "a", "c", ".hidden"}) folder.write(name, "");
  std::filesystem::create_directory(folder.path() + "/e");
  std::filesystem::create_symlink(folder.path() + "/nowhere", folder.path() + "/link");
  std::error_code failure = std::make_error_code(std::errc::io_error);
  EXPECT_EQ(names_in(folder.path(), &failure), (std::vector<std::string>{".hidden", "a", "b", "c", "d", "e", "link"}));
  EXPECT_FALSE(failure);
  EXPECT_TRUE(names_in(folder.path() + "/nowhere", &failure).empty());
  EXPECT_EQ(failure, std::errc::no_such_file_or_directory);

  struct {
    const char* name;
    bool is_there, is_file, is_folder;
  } const answers[] = {{"a", true, true, false},
                       {"e", true, false, true},
                       {"link", false, false, false},
                       {"a/below", false, false, false}};
  for (const auto& answer : answers) {
    const std::string path = folder.path() + "/" + answer.name;
    EXPECT_EQ(is_there(path), answer.is_there) << path;
    EXPECT_EQ(is_file(path), answer.is_file) << path;
    EXPECT_EQ(is_folder(path), answer.is_folder) << path;
  }
}

}  // namespace
}  // namespace bascule
