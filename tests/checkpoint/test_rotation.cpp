// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/find_checkpoint.h"

#include <filesystem>
#include <initializer_list>

#include "src/checkpoint/checkpoint.h"
#include "tests/checkpoint/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using Names = std::vector<std::string>;

Names left_of(std::initializer_list<std::int64_t> steps, std::int64_t limit, std::int64_t newest, std::int64_t best,
              bool keeps_later = false) {
  const test::TemporaryFolder folder;
  for (const std::int64_t step : steps) {
    const std::string name(checkpoint_name(step).text());
    std::filesystem::create_directory(folder.path() + "/" + name);
    folder.write(name + "/bascule_state.json", "{}");
  }
  EXPECT_TRUE(CheckpointRotation(folder.path(), limit, keeps_later).remove_old(newest, best).ok());
  return folder_entries(folder.path());
}

TEST(Rotation, TheBestStaysBesideTheNewest) {
  EXPECT_EQ(left_of({10, 20, 30, 40}, 2, 40, 10), (Names{"checkpoint-10", "checkpoint-40"}));
  EXPECT_EQ(left_of({10, 20, 30, 40}, 3, 40, 10), (Names{"checkpoint-10", "checkpoint-30", "checkpoint-40"}));
  EXPECT_EQ(left_of({10, 20, 30, 40}, 2, 40, 40), (Names{"checkpoint-30", "checkpoint-40"}));
  EXPECT_EQ(left_of({10, 20, 30, 40}, 0, 40, 10).size(), 4U);
}

TEST(Rotation, ALimitOfOneLeavesTwoWhereTheBestIsNotTheNewest) {
  EXPECT_EQ(left_of({10, 20, 30}, 1, 30, 20), (Names{"checkpoint-20", "checkpoint-30"}));
  EXPECT_EQ(left_of({10, 20, 30}, 1, 30, -1), (Names{"checkpoint-30"}));
}

TEST(Rotation, ThoseOfAnAbandonedRunGoWhateverTheLimit) {
  EXPECT_EQ(left_of({10, 20, 30, 40}, 0, 20, 10), (Names{"checkpoint-10", "checkpoint-20"}));
}

TEST(Rotation, WhatCouldNotBeReadStaysUntilTheRunHasPassedIt) {
  EXPECT_EQ(left_of({10, 20, 30}, 1, 20, -1, true), (Names{"checkpoint-20", "checkpoint-30"}));
  EXPECT_EQ(left_of({10, 20, 30, 40}, 1, 40, -1, true), (Names{"checkpoint-40"}));
}

}  // namespace
}  // namespace bascule
