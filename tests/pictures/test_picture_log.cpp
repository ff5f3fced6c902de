// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/picture_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "src/runtime/guard.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

using Row = PictureLogRow;
constexpr char kFox[] =
    "{\"file\": \"00000.png\", \"prompt\": \"a fox\", \"negative_prompt\": \"\", \"seed\": 42, "
    "\"noise\": 7, \"seconds\": 1.23, \"digest\": \"00000000000000ff\", \"latents\": [\"0000000000000abc\", "
    "\"ffffffffffffffff\"], \"check\": \"ed3c589330594ecb\"}\n";

PictureLogView view_of(const Row& row) {
  return {row.file,    row.prompt, row.negative_prompt, row.seed,
          row.seconds, row.digest, row.noise,           {row.latents.data(), row.latents.size()}};
}

const Row kRows[] = {{"00000.png", "a fox", "", 42, 1.23, 0xff, 7, {0xabc, ~std::uint64_t{0}}},
                     {"00001.png",
                      "a \"quoted\" \\ fox,\n\ttwo lines\x01\x7f",
                      "na\xC3\xAFve \xF0\x9F\xA6\x8A",
                      std::numeric_limits<std::uint64_t>::max(),
                      0.1,
                      ~std::uint64_t{0},
                      0,
                      {}},
                     {"00002.png", "", "\xE2\x80\xA8", 0, 1e-300, 0x0123456789abcdef, 1, {1, 2, 3}}};

class PictureLogFile : public ::testing::Test {
 protected:
  PictureLogFile() : memory_(log_.bytes()) { log_.seal(memory_.data()); }

  std::string path() const { return folder_.path() + "/" + kPictureLogFile; }
  void append_rows() {
    log_.open(path());
    for (const Row& row : kRows) ASSERT_TRUE(log_.append(view_of(row)).ok());
  }

  TemporaryFolder folder_;
  PictureLog log_{100, 3};
  std::vector<std::byte> memory_;
};

void expect_rows(const std::vector<Row>& rows, std::size_t count) {
  ASSERT_EQ(rows.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(rows[i].file, kRows[i].file);
    EXPECT_EQ(rows[i].prompt, kRows[i].prompt);
    EXPECT_EQ(rows[i].negative_prompt, kRows[i].negative_prompt);
    EXPECT_EQ(rows[i].seed, kRows[i].seed);
    EXPECT_EQ(rows[i].seconds, kRows[i].seconds);
    EXPECT_EQ(rows[i].digest, kRows[i].digest);
    EXPECT_EQ(rows[i].noise, kRows[i].noise);
    EXPECT_EQ(rows[i].latents, kRows[i].latents);
  }
}

TEST_F(PictureLogFile, HasALineForEveryPicture) {
  append_rows();
  const std::string content = read_file(path());
  EXPECT_EQ(content.substr(0, content.find('\n') + 1), kFox);
  EXPECT_NE(content.find(R"("a \"quoted\" \\ fox,\u000a\u0009two lines\u0001)"), std::string::npos) << content;
  expect_rows(read_picture_log(path()), 3);
}

TEST_F(PictureLogFile, IsEmptyBeforeTheFirstPicture) {
  EXPECT_TRUE(read_picture_log(path()).empty());
  log_.open(path());
  EXPECT_TRUE(read_picture_log(path()).empty());
}

// A kill may leave any number of bytes of a line: here none, one, all but the line break, and many between.
TEST_F(PictureLogFile, GoesOnBehindTheLastWholeLineWhereverTheRunWasKilled) {
  append_rows();
  const std::string content = read_file(path());
  for (std::size_t size = 0; size <= content.size(); ++size) {
    const bool is_at_a_bound = content.find('\n', size - std::min<std::size_t>(size, 2)) <= size;
    if (size % 13 != 0 && !is_at_a_bound) continue;
    folder_.write(kPictureLogFile, content.substr(0, size));
    std::size_t whole = 0;
    for (std::size_t i = 0; i < size; ++i) whole += content[i] == '\n' ? 1 : 0;
    expect_rows(read_picture_log(path()), whole);
    PictureLog log(100, 3);
    log.seal(memory_.data());
    log.open(path());
    for (std::size_t i = whole; i < 3; ++i) ASSERT_TRUE(log.append(view_of(kRows[i])).ok());
    ASSERT_EQ(read_file(path()), content) << "killed after " << size << " bytes";
  }
}

TEST_F(PictureLogFile, AWholeLineThatIsNoRowIsRefusedByItsNumber) {
  const std::string whole = kFox, fox = whole.substr(0, whole.find(", \"check\"")) + "}\n";  // of an earlier version
  const auto refusal = [&](const std::string& line) {
    folder_.write(kPictureLogFile, fox + line + "\n" + fox);
    const std::string error = error_of([&] { read_picture_log(path()); });
    EXPECT_NE(error.find("images.jsonl:2"), std::string::npos) << error;
    return error;
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = fox.substr(0, fox.size() - 1);
    return line.replace(line.find(from), from.size(), to);
  };
  refusal("");
  refusal(fox.substr(0, 40));
  refusal(changed("a fox", "\xFF"));
  EXPECT_NE(refusal("[1]").find("is not a JSON object"), std::string::npos);
  EXPECT_NE(refusal(changed("\"seed\"", "\"need\"")).find("unknown member \"need\""), std::string::npos);
  EXPECT_NE(refusal(changed("\"seed\": 42, ", "")).find("seed"), std::string::npos);
  for (const char* seed : {"\"42\"", "-1", "18446744073709551616"})
    EXPECT_NE(refusal(changed("42", seed)).find("seed"), std::string::npos);
  EXPECT_NE(refusal(changed("1.23", "null")).find("seconds"), std::string::npos);
  for (const char* digest : {"ff", "00000000000000fg", "000000000000000ff", "-0000000000000ff"})
    EXPECT_NE(refusal(changed("00000000000000ff", digest)).find("must be 16 hexadecimal digits"), std::string::npos);
  EXPECT_NE(refusal(changed("0000000000000abc", "abc")).find("latents: \"abc\": must be 16"), std::string::npos);
  EXPECT_NE(refusal(changed("\"0000000000000abc\"", "1")).find("latents has a member that is no text"),
            std::string::npos);
  EXPECT_NE(refusal(changed("\"latents\"", "\"patents\"")).find("unknown member \"patents\""), std::string::npos);
}

// What no picture tells: a digest of its latents, the seconds.
TEST_F(PictureLogFile, ALineWithAnyBitChangedIsRefused) {
  const std::string fox = kFox;
  for (std::size_t i = 0; i + 1 < fox.size(); ++i) {
    std::string changed = fox;
    changed[i] = static_cast<char>(changed[i] ^ 1 << i % 7);
    folder_.write(kPictureLogFile, changed);
    if (changed.find('\n') + 1 != changed.size()) continue;  // two lines of it
    EXPECT_NE(error_of([&] { read_picture_log(path()); }), "no error") << changed;
  }
}

TEST_F(PictureLogFile, ALineFitsWhateverIsEscapedOrIsNotWritten) {
  PictureLog log(1000, 999);
  std::vector<std::byte> memory(log.bytes());
  log.seal(memory.data());
  log.open(path());
  const std::string longest(1000, '\x01'), longer(1400, '\x01'), name(255, '\x01');
  const std::vector<std::uint64_t> digests(999, ~std::uint64_t{0});
  ASSERT_TRUE(log.append({name,
                          longest,
                          longest,
                          std::numeric_limits<std::uint64_t>::max(),
                          -1.2345678901234567e-300,
                          1,
                          std::numeric_limits<std::int64_t>::min(),
                          {digests.data(), digests.size()}})
                  .ok());
  EXPECT_EQ(read_picture_log(path()).front().prompt, longest);
  const std::string content = read_file(path());
  const Status status = log.append({"00001.png", longer, longer, 1, 1.0, 1, 0, {digests.data(), digests.size()}});
  EXPECT_EQ(status.code, StatusCode::kDiskFailed);
  EXPECT_EQ(status.detail[0], EOVERFLOW);
  EXPECT_EQ(read_file(path()), content);
}

TEST_F(PictureLogFile, AFullDiskIsAStatusAndLeavesWholeLines) {
  append_rows();
  const std::string content = read_file(path());
  struct rlimit usual {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit few = usual;
  few.rlim_cur = content.size() + 10;
  ::setrlimit(RLIMIT_FSIZE, &few);
  const Status status = log_.append(view_of(kRows[0]));
  ::setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code, StatusCode::kDiskFailed);
  EXPECT_EQ(status.detail[0], EFBIG);
  EXPECT_EQ(read_file(path()), content);
  EXPECT_TRUE(log_.append(view_of(kRows[0])).ok());
  EXPECT_EQ(read_file(path()), content + kFox);
}

TEST_F(PictureLogFile, CannotBeOpenedWhereThereIsNoFolder) {
  const std::string absent = folder_.path() + "/absent/images.jsonl";
  const std::string error = error_of([&] { log_.open(absent); }, ErrorKind::kDisk);
  EXPECT_NE(error.find("cannot be opened: No such file or directory"), std::string::npos) << error;
  EXPECT_NE(error_of([&] { log_.open(folder_.path()); }).find("is not a file"), std::string::npos);
}

TEST_F(PictureLogFile, AllocatesNothingAfterTheSeal) {
  if (!guard_is_active()) GTEST_SKIP() << "a sanitizer's allocator is in place";
  log_.open(path());
  const PictureLogView row = view_of(kRows[1]);
  ForeignAllocations before[64], after[64];
  bool is_ok = true;
  seal_memory();
  const std::size_t known = foreign_allocations(before, 64);
  for (int i = 0; i < 50; ++i) is_ok = log_.append(row).ok() && is_ok;
  const std::size_t count = foreign_allocations(after, 64);
  open_memory();
  EXPECT_TRUE(is_ok);
  ASSERT_EQ(count, known);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(after[i].calls, before[i].calls);
  EXPECT_EQ(read_picture_log(path()).size(), 50u);
}

}  // namespace
}  // namespace bascule::test
