// SPDX-License-Identifier: Apache-2.0
#include "src/files/input_file.h"

#include <filesystem>

#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

TEST(InputFile, ReadsAnywhereAndSaysWhereTheFileEnds) {
  const test::TemporaryFolder folder;
  const InputFile file(folder.write("a", "0123456789"));
  EXPECT_EQ(file.size(), 10);
  char part[4] = {};
  file.read(part, 3, 3);
  EXPECT_STREQ(part, "345");
  const Status status = file.try_read(part, 8, 3);
  EXPECT_EQ(status.code, StatusCode::kReadFailed);
  EXPECT_EQ(read_problem(status), "the file is truncated");
}

TEST(InputFile, KeepsTheContentWhenTheNameGoesToAnother) {
  const test::TemporaryFolder folder;
  InputFile file(folder.write("a", "old"));
  std::filesystem::remove(folder.path() + "/a");
  folder.write("a", "new");
  const InputFile moved(std::move(file));
  char text[4] = {};
  moved.read(text, 0, 3);
  EXPECT_STREQ(text, "old");
}

TEST(InputFile, ReadsAllOfAFile) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(text_of_file(folder.write("a", std::string("0\0\n2", 4))), std::string("0\0\n2", 4));
  EXPECT_EQ(text_of_file(folder.write("empty", "")), "");
  EXPECT_EQ(test::error_of([&] { text_of_file("/dev/null"); }), "/dev/null: is not a file");
}

TEST(InputFile, RefusesWhatIsNoRegularFile) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(test::error_of([&] { InputFile(folder.path()); }), folder.path() + ": is not a file");
  EXPECT_EQ(test::error_of([&] { InputFile("/dev/null"); }), "/dev/null: is not a file");
  const std::string line = test::error_of([&] { InputFile(folder.path() + "/none"); });
  EXPECT_NE(line.find("/none: cannot be opened: No such file or directory"), std::string::npos) << line;
}

}  // namespace
}  // namespace bascule
