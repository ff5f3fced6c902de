// SPDX-License-Identifier: Apache-2.0
#include "src/base/tape_position.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

constexpr std::int64_t kLength = 1000;  // of a tape

TEST(TapePosition, ReleasesOperationsOfTheLastMicroBatchAlone) {
  TapePosition position;
  for (std::int64_t update = 1; update <= 3; ++update) {
    position.reach(kLength);  // a micro-batch before the last
    EXPECT_FALSE(position.has_reached(update, 1));
    position.begin_gradients(update);
    EXPECT_FALSE(position.has_reached(update, 1));
    position.reach(500);
    EXPECT_TRUE(position.has_reached(update, 500));
    EXPECT_FALSE(position.has_reached(update, 501));
    position.reach(kLength);
    position.end_gradients();
    position.reach(1);  // an evaluation's tape
    EXPECT_TRUE(position.has_reached(update, kLength)) << "still: other ranks may look late";
    EXPECT_FALSE(position.has_reached(update + 1, 1));
  }
}

TEST(TapePosition, KnowsTheOperationOfWhateverTapeIsReplayed) {
  TapePosition position;
  position.begin_gradients(7);
  position.reach(12);
  EXPECT_EQ(position.operation(), 12);
  position.end_gradients();
  position.reach(3);
  EXPECT_EQ(position.operation(), 3);
}

}  // namespace
}  // namespace bascule
