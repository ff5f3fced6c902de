// SPDX-License-Identifier: Apache-2.0
#include "src/ask/asked_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace bascule {
namespace {

TEST(InputLines, HaveNoLineBreaksOfEitherKind) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string text = "one\r\ntwo\n\r\na \r in it\nno end\r";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  InputLines lines(ends[0]);
  EXPECT_EQ(lines.read(10, 100), (std::vector<std::string>{"one", "two", "", "a \r in it", "no end"}));
  EXPECT_TRUE(lines.read(10, 100).empty());
  ::close(ends[0]);
}

}  // namespace
}  // namespace bascule
