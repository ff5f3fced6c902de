// SPDX-License-Identifier: Apache-2.0
#include "src/loader/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/seeded.h"

namespace bascule::test_batch_order {
namespace {

using test::Seeded;

BatchDealing random_dealing(Seeded& random, bool shuffled) {
  BatchDealing dealing;
  dealing.seed = random.bits();
  dealing.rows = random.integer(1, 200);
  dealing.shuffled = shuffled;
  dealing.world_size = random.integer(1, 6);
  dealing.batch_per_rank = random.integer(1, 20);
  return dealing;
}

// The positions that all ranks together have in an epoch, counted.
std::vector<int> times_dealt(BatchDealing dealing, std::int64_t epoch) {
  std::vector<int> times(static_cast<std::size_t>(dealing.rows), 0);
  for (dealing.rank = 0; dealing.rank < dealing.world_size; ++dealing.rank) {
    const BatchOrder order(dealing);
    for (std::int64_t i = 0; i < order.batches_per_epoch(); ++i) {
      const BatchPlace place = order.place(epoch * order.batches_per_epoch() + i);
      EXPECT_EQ(place.epoch, epoch);
      EXPECT_EQ(place.index, i);
      EXPECT_LE(place.count, order.max_samples());
      for (std::int64_t b = 0; b < place.count; ++b) ++times[static_cast<std::size_t>(place.first_position + b)];
    }
  }
  return times;
}

TEST(BatchOrder, DealsEveryPositionOnceAnEpochToExactlyOneRank) {
  Seeded random;
  for (int round = 0; round < 400; ++round) {
    const BatchDealing dealing = random_dealing(random, random.chance(0.5));
    const std::vector<int> once(static_cast<std::size_t>(dealing.rows), 1);
    ASSERT_EQ(times_dealt(dealing, random.integer(0, 5)), once);
  }
}

TEST(BatchOrder, LeavesOutALastSmallerBatchInTrainingOnly) {
  for (const bool shuffled : {false, true}) {
    BatchDealing dealing;
    dealing.rows = 11;
    dealing.shuffled = shuffled;
    dealing.world_size = 2;
    dealing.batch_per_rank = 2;
    dealing.drop_last = true;
    const std::vector<int> times = times_dealt(dealing, 1);
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), shuffled ? 8 : 11);
  }
}

TEST(BatchOrder, DealsWholeBatchesInEvaluationWhateverTheWorld) {
  Seeded random;
  for (int round = 0; round < 400; ++round) {
    BatchDealing dealing = random_dealing(random, false);
    for (dealing.rank = 0; dealing.rank < dealing.world_size; ++dealing.rank) {
      const BatchOrder order(dealing);
      for (std::int64_t i = 0; i < order.batches_per_epoch(); ++i) {
        const BatchPlace place = order.place(i);
        ASSERT_EQ(place.first_position % dealing.batch_per_rank, 0);
        ASSERT_EQ(place.first_position / dealing.batch_per_rank, i * dealing.world_size + dealing.rank);
        const bool is_last = place.first_position + place.count == dealing.rows;
        ASSERT_TRUE(place.count == dealing.batch_per_rank || is_last);
      }
    }
  }
}

TEST(BatchOrder, BoundsABatchByTheRowsThatThereAre) {
  BatchDealing dealing;
  dealing.rows = 10;
  dealing.world_size = 4;
  dealing.batch_per_rank = 40;
  EXPECT_EQ(BatchOrder(dealing).max_samples(), 3);
  dealing.shuffled = false;
  EXPECT_EQ(BatchOrder(dealing).max_samples(), 10);
  dealing.shuffled = true;
  dealing.rows = 2;
  dealing.rank = 3;
  EXPECT_EQ(BatchOrder(dealing).place(0).count, 0);
  EXPECT_EQ(BatchOrder(dealing).max_samples(), 1);
}

}  // namespace
}  // namespace bascule::test_batch_order
