// SPDX-License-Identifier: Apache-2.0
#include "src/files/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/base/descriptor.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

TEST(RegularFile, IsOpenedRelativeToAFolder) {
  const test::TemporaryFolder folder;
  folder.write("a", "x");
  const Descriptor opened(::open(folder.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(Descriptor(open_regular_file(opened.number(), "a")).is_open());
  EXPECT_EQ(open_regular_file(opened.number(), "b"), -ENOENT);
}

TEST(RegularFile, PipesDevicesAndFoldersAreRefusedAndNotWaitedFor) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(open_regular_file(AT_FDCWD, pipe.c_str()), -kNotAFile);
  EXPECT_EQ(open_regular_file(AT_FDCWD, "/dev/zero"), -kNotAFile);
  EXPECT_EQ(open_regular_file(AT_FDCWD, folder.path().c_str()), -EISDIR);
  EXPECT_EQ(file_problem(kNotAFile), "is not a file");
  EXPECT_EQ(file_problem(EACCES), "cannot be read: Permission denied");
}

}  // namespace
}  // namespace bascule
