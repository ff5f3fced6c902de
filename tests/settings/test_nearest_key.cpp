// SPDX-License-Identifier: Apache-2.0
#include "src/settings/nearest_key.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(NearestKey, DistanceCountsSlipsOfTheHand) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("sede", "seed"), 1U);  // two neighbours swapped
  EXPECT_EQ(edit_distance("Learning-Rate", "learning_rate"), 0U);
}

TEST(NearestKey, OnlyANearNameIsOfferedAndTheFirstOfEquals) {
  const std::vector<std::string> names = {"train_file", "test_file", "ring_slots"};
  EXPECT_EQ(nearest_name("trainfile", names), "train_file");
  EXPECT_EQ(nearest_name("ring_slot", names), "ring_slots");
  EXPECT_EQ(nearest_name("momentum", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
  EXPECT_EQ(nearest_name("ab", {"aa", "bb"}), "aa");
}

}  // namespace
}  // namespace bascule
