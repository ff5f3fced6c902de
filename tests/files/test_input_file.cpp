// SPDX-License-Identifier: Apache-2.0
#include "src/files/input_file.h"

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "src/base/digest.h"
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

TEST(InputFile, SaysHowMuchOfItIsMissing) {
  const test::TemporaryFolder folder;
  const InputFile file(folder.write("a", "0123456789"));
  EXPECT_EQ(file.path(), folder.path() + "/a");
  char part[10] = {};
  EXPECT_TRUE(file.try_read(part, 0, 10).ok());
  EXPECT_TRUE(file.try_read(part, 10, 0).ok());
  const Status status = file.try_read(part, 10, 1);
  EXPECT_EQ(status.detail[0], -1);
  EXPECT_EQ(status.detail[1], 0);
  EXPECT_EQ(test::error_of([&] { file.read(part, 1, 10); }), folder.path() + "/a: the file is truncated");
  EXPECT_EQ(read_problem({StatusCode::kReadFailed, {-1, EIO}}), "cannot be read: Input/output error");
  EXPECT_EQ(text_of_file(folder.path() + "/a", 10), "0123456789");
  EXPECT_EQ(test::error_of([&] { text_of_file(folder.path() + "/a", 9); }),
            folder.path() + "/a: is too large: 10 bytes");
}

// Also of a file that takes more than one block.
TEST(Sha256OfFile, IsThatOfItsBytes) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(sha256_of_file(folder.write("a", "abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(folder.write("empty", "")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string million(1'000'000, 'a');
  EXPECT_EQ(sha256_of_file(folder.write("million", million)),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::string large;
  for (std::size_t i = 0; large.size() < (std::size_t{2} << 20) + 5; ++i) large += std::to_string(i);
  Sha256 whole;
  whole.add(large.data(), large.size());
  EXPECT_EQ(sha256_of_file(folder.write("large", large)), whole.hex());
  EXPECT_EQ(test::error_of([&] { sha256_of_file(folder.path()); }), folder.path() + ": is not a file");
}

TEST(InputList, HasEachFileOnceByFolderInOrder) {
  const test::TemporaryFolder folder;
  folder.write("here", "");
  std::filesystem::create_directory(folder.path() + "/sub");
  InputList list;
  list.add("z", "2");
  list.add("z", "1");
  list.add("z", "2");
  list.add("", "x");
  list.add("y/../m/", "n");
  list.add_path("z/0");
  list.add_path("w");
  list.add_path("/abs/file");
  list.add_found("model", folder.path(), std::vector<const char*>{"sub", "here", "none"});
  const std::vector<InputFolder> sorted = list.sorted();
  std::vector<std::string> text;
  for (const InputFolder& one : sorted) {
    text.push_back(one.folder + ":");
    for (const std::string& file : one.files) text.back() += " " + file;
  }
  EXPECT_EQ(text, (std::vector<std::string>{".: w x", "/abs: file", "m/: n", "model: here", "z: 0 1 2"}));
}

}  // namespace
}  // namespace bascule
