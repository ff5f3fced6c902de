// SPDX-License-Identifier: Apache-2.0
#include "src/base/descriptor.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace bascule {
namespace {

TEST(SmallFile, IsReadAsFarAsItFits) {
  const std::string path = testing::TempDir() + "small_file.txt";
  std::ofstream(path) << "seven b";
  char roomy[64], exact[8], tight[4];
  EXPECT_TRUE(read_small_file(path.c_str(), roomy));
  EXPECT_STREQ(roomy, "seven b");
  EXPECT_TRUE(read_small_file(path.c_str(), exact));
  EXPECT_STREQ(exact, "seven b");
  EXPECT_TRUE(read_small_file(path.c_str(), tight));
  EXPECT_STREQ(tight, "sev");
}

TEST(SmallFile, ThatIsNotThereIsEmpty) {
  char text[8] = "before";
  EXPECT_FALSE(read_small_file("/proc/no/such/file", text));
  EXPECT_STREQ(text, "");
}

}  // namespace
}  // namespace bascule
