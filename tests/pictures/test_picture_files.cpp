// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "src/pictures/picture_decoder.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

TEST(ShardOfPicture, IsTheFirstPartOfThePathThatIsAFile) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/x.tar");
  const std::string shard = folder.write("x.tar/s.tar", ""), beside = folder.write("x.tar/1.jpg", "");
  EXPECT_EQ(shard_of_picture(shard + "/0.jpg"), shard);
  EXPECT_EQ(shard_of_picture(shard + "/a.tar/0.jpg"), shard);
  EXPECT_EQ(shard_of_picture(beside), "") << "a file of its own";
  EXPECT_EQ(shard_of_picture(folder.path() + "/x.tar/0.jpg"), "") << "absent";
  EXPECT_EQ(shard_of_picture("0.jpg"), "");
}

}  // namespace
}  // namespace bascule
