// SPDX-License-Identifier: Apache-2.0
#include "src/base/paths.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace bascule {
namespace {

TEST(ProgramFile, IsThatOfTheRunningProgram) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(program_file(), self.string());
  EXPECT_EQ(tree_of_program(), self.parent_path().parent_path().string());
}

TEST(ProgramFile, PathsStayInsideTheFolderThatTheyStartFrom) {
  EXPECT_EQ(path_inside("/opt/one", "data/a.jsonl"), "/opt/one/data/a.jsonl");
  EXPECT_EQ(path_inside("/opt/one", "../data/a.jsonl"), "/opt/one/data/a.jsonl");
  EXPECT_EQ(path_inside("/opt/one", "x/../../../data/"), "/opt/one/data");
  EXPECT_EQ(path_inside("/", "../runs"), "/runs");
  EXPECT_EQ(path_inside("/opt/one", "/var/data"), "/var/data");
  EXPECT_EQ(path_inside("", "../part-*.jsonl"), "part-*.jsonl");
}

}  // namespace
}  // namespace bascule
