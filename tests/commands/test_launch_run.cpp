// SPDX-License-Identifier: Apache-2.0
#include "src/commands/run_phases.h"

#include <gtest/gtest.h>

#include "src/settings/settings.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// Ranks whose launcher was killed go on for a moment, and may finish the run after the next launcher has looked at it.
TEST(LaunchRun, StartsNoRanksOfARunThatWasFinishedUntilItsFolderWasFree) {
  const TemporaryFolder folder;
  Settings settings;
  settings.distributed.world_size = 2;
  settings.run.output_dir.resolved = folder.path() + "/run";
  int looks = 0;
  EXPECT_EQ(launch_run(
                settings, {"/nowhere/run.toml"}, false, [&] { return ++looks == 2; }, ""),
            0);
  EXPECT_EQ(looks, 2);
}

}  // namespace
}  // namespace bascule::test
