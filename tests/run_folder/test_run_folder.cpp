// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_folder.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

bool can_lock(const std::string& folder, int how) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool is_free = flock(file, how | LOCK_NB) == 0;
  close(file);
  return is_free;
}

bool can_lock_alone(const std::string& folder) { return can_lock(folder, LOCK_EX); }

// A launcher may be killed; its rank 0 then still writes for a moment.
TEST(FolderLock, IsHeldUntilTheLastOfLauncherAndRankHasGone) {
  const TemporaryFolder folder;
  Settings settings;
  settings.run.output_dir.resolved = folder.path() + "/run";
  std::optional<FolderLock> launcher(std::in_place, settings, FolderUser::kLauncher);
  std::optional<FolderLock> rank(std::in_place, settings, FolderUser::kRank);
  EXPECT_FALSE(can_lock_alone(settings.run.output_dir.resolved));
  launcher.reset();
  EXPECT_FALSE(can_lock_alone(settings.run.output_dir.resolved));
  rank.reset();
  EXPECT_TRUE(can_lock_alone(settings.run.output_dir.resolved));
}

TEST(FolderLock, OneProcessHoldsItAlone) {
  const TemporaryFolder folder;
  Settings settings;
  settings.run.output_dir.resolved = folder.path() + "/run";
  const FolderLock lock(settings, FolderUser::kProcess);
  EXPECT_FALSE(lock.has_waited());
  EXPECT_FALSE(can_lock_alone(settings.run.output_dir.resolved));
  EXPECT_FALSE(can_lock(settings.run.output_dir.resolved, LOCK_SH)) << "of a second run";
}

}  // namespace
}  // namespace bascule::test
