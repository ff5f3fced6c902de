// SPDX-License-Identifier: Apache-2.0
#include "src/commands/check_outputs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class CheckTree : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path() + "/" + name).parent_path());
    std::ofstream(folder_.path() + "/" + name) << text;
  }
  // Exit code and message; 0 where the tree is accepted.
  std::pair<int, std::string> refusal() const {
    try {
      check_tree(folder_.path());
    } catch (const Error& error) {
      return {exit_code(error.kind()), error.what()};
    }
    return {0, ""};
  }
  test::TemporaryFolder folder_;
};

TEST_F(CheckTree, AcceptsTheListedFilesAndIgnoresOthers) {
  EXPECT_EQ(refusal().first, 0) << "a tree without a list";
  write("data/a b.txt", "abc");
  write("other", "x");
  write("SHA256SUMS", std::string(kAbc) + "  data/a b.txt\n");
  EXPECT_EQ(refusal(), std::pair(0, std::string()));
}

TEST_F(CheckTree, NamesTheFileThatDiffersOrIsMissing) {
  write("SHA256SUMS", std::string(kAbc) + "  data/a.txt\n");
  EXPECT_EQ(refusal().first, 7);
  EXPECT_NE(refusal().second.find("data/a.txt: is missing"), std::string::npos) << refusal().second;
  write("data/a.txt", "abd");
  EXPECT_EQ(refusal().first, 7);
  EXPECT_NE(refusal().second.find("data/a.txt: is not the file"), std::string::npos) << refusal().second;
}

TEST_F(CheckTree, RefusesAListOfAnotherForm) {
  for (const std::string& text :
       {std::string(kAbc) + "  a", std::string(kAbc) + " *a\n", std::string("\n"), std::string(200, '0')}) {
    write("SHA256SUMS", text);
    EXPECT_EQ(refusal().first, 3) << text;
  }
}

}  // namespace
}  // namespace bascule
