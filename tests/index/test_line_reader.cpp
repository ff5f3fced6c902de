// SPDX-License-Identifier: Apache-2.0
#include "src/index/line_reader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

std::vector<std::string> lines_of(LineReader* reader) {
  std::vector<std::string> lines;
  for (std::string_view line; reader->next(&line);) lines.emplace_back(line);
  return lines;
}

TEST(LineReader, GivesEveryLineWithoutTheMarkInFront) {
  const test::TemporaryFolder folder;
  LineReader reader(folder.write("a", "\xEF\xBB\xBFone\r\n\n\xEF\xBB\xBF two\nthree"));
  EXPECT_EQ(lines_of(&reader), (std::vector<std::string>{"one", "", "\xEF\xBB\xBF two", "three"}));
  EXPECT_EQ(reader.line(), 4);
}

// As Python reads a text; and "\r\r\n", which a file has that was twice written as text on Windows, ends one line.
TEST(LineReader, EndsLinesAtEveryKindOfBreak) {
  const test::TemporaryFolder folder;
  std::vector<std::string> breaks;
  LineReader reader(folder.write("a", "one\rtwo\r\nthree\r\r\nfour\n\r\r\rfive\r"));
  std::vector<std::string> lines;
  std::vector<std::int64_t> offsets;
  for (std::string_view line; reader.next(&line); breaks.emplace_back(reader.line_break())) {
    lines.emplace_back(line);
    offsets.push_back(reader.offset());
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three", "four", "", "", "", "five"}));
  EXPECT_EQ(breaks, (std::vector<std::string>{"\r", "\r\n", "\r\r\n", "\n", "\r", "\r", "\r", "\r"}));
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 4, 9, 17, 22, 23, 24, 25}));
  // The break lies across the end of what is read at once.
  for (const std::size_t bytes : {(1U << 20) - 3, (1U << 20) - 2, (1U << 20) - 1, 1U << 20}) {
    LineReader large(folder.write("b", std::string(bytes, 'x') + "\r\r\ny"));
    EXPECT_EQ(lines_of(&large).size(), 2u) << bytes;
  }
}

// The buffer holds 1 MiB: of a line that is too long it is never made larger.
TEST(LineReader, HoldsNoLineThatIsTooLong) {
  const test::TemporaryFolder folder;
  const std::string whole = "short\n" + std::string(std::size_t{5} << 20, 'x') + "\nend\n";
  const std::string path = folder.write("a", whole);
  LineReader any(path);
  EXPECT_EQ(lines_of(&any).at(1).size(), std::size_t{5} << 20);
  LineReader reader(path, 1000);
  const std::vector<std::string> lines = lines_of(&reader);
  ASSERT_GE(lines.size(), 6u);
  EXPECT_GT(lines[1].size(), 1000u);
  std::string joined = lines[0] + "\n";
  for (std::size_t i = 1; i < lines.size() - 1; ++i) {
    EXPECT_LE(lines[i].size(), std::size_t{1} << 20) << i;
    joined += lines[i];
  }
  EXPECT_TRUE(joined + "\nend\n" == whole);
  EXPECT_EQ(lines.back(), "end");
  EXPECT_EQ(reader.digest(), any.digest());
  EXPECT_EQ(reader.digest(), digest_of(whole.data(), whole.size()));
}

TEST(LineReader, TellsALineThatIsTooLongBehindAMark) {
  const test::TemporaryFolder folder;
  for (const std::size_t bytes : {999U, 1000U, 1001U, 1002U, 1003U, 9000U}) {
    LineReader reader(folder.write("a", "\xEF\xBB\xBF" + std::string(bytes, 'x')), 1000);
    std::string_view line;
    ASSERT_TRUE(reader.next(&line));
    EXPECT_EQ(line.size() > 1000, bytes > 1000) << bytes;
  }
  // What is read at once, 1 MiB, is more than the longest line, and with the mark not.
  constexpr std::size_t kLongest = (std::size_t{1} << 20) - 2;
  LineReader reader(folder.write("a", "\xEF\xBB\xBF" + std::string(kLongest + 100, 'x')), kLongest);
  std::string_view line;
  ASSERT_TRUE(reader.next(&line));
  EXPECT_GT(line.size(), kLongest);
}

}  // namespace
}  // namespace bascule
