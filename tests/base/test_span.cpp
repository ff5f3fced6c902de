// SPDX-License-Identifier: Apache-2.0
#include "src/base/span.h"

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace bascule {
namespace {

TEST(Span, LendsTheElementsOfAVector) {
  std::vector<int> values = {1, 2, 3, 4};
  const Span<int> all(values);
  all[2] = 7;
  EXPECT_EQ(values[2], 7);
  const Span<const int> middle = Span<const int>(all).subspan(1, 2);
  EXPECT_EQ(middle.size(), 2u);
  EXPECT_EQ(middle[1], 7);
}

TEST(Error, IsOneLineThatSaysWhereWhatAndWhatToDo) {
  const Error error(ErrorKind::kData, "a.jsonl:3", "no column\n\"x\"", "name it");
  EXPECT_STREQ(error.what(), "a.jsonl:3: no column \"x\"; name it");
  EXPECT_EQ(exit_code(error.kind()), 3);
}

TEST(Error, CanBePrintedWhateverIsInTheFileThatItSpeaksOf) {
  const Error error(ErrorKind::kData, "a", "\xff\xc3\xa4\xe2\x82");
  EXPECT_STREQ(error.what(), "a: ?\xc3\xa4??");
}

}  // namespace
}  // namespace bascule
