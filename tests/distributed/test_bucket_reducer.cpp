// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/bucket_reducer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "tests/distributed/forked_ranks.h"

namespace bascule::test {
namespace {

struct Summed {
  std::atomic<std::size_t> buckets{0};
  static void note(void* self, std::size_t bucket) noexcept {
    Summed& summed = *static_cast<Summed*>(self);
    if (summed.buckets.load() == bucket) summed.buckets.store(bucket + 1);  // in order, each once
  }
  void wait_for(std::size_t count) const {
    while (buckets.load() < count) usleep(100);
  }
};

TEST(BucketReducer, SumsABucketAsSoonAsItIsFinalOnEveryRankAndNoSooner) {
  const Ends ends = run_ranks(2, [](const RankPlace& place) {
    Group group(place, {30, nullptr});
    Summed summed;
    BucketReducer reducer(group, {10, 20, 20, 30}, {&Summed::note, nullptr, &summed});
    for (std::int64_t update = 1; update <= 3; ++update) {
      summed.buckets.store(0);
      group.position().begin_gradients(update);
      reducer.begin(update);
      group.position().reach(place.rank == 0 ? 30 : 19);  // rank 1 lacks the last operation of the second bucket
      summed.wait_for(1);
      if (!group.barrier()) return 1;
      usleep(2000);
      if (summed.buckets.load() != 1) return 2;
      if (!group.barrier()) return 3;
      if (place.rank == 1) group.position().reach(20);
      summed.wait_for(3);
      if (!group.barrier()) return 4;
      if (reducer.finish() != 3) return 5;  // the last is left to others
      if (!group.barrier()) return 6;
      group.position().reach(30);
      group.position().end_gradients();
    }
    return group.leave() ? 0 : 7;
  });
  EXPECT_EQ(ends, Ends(2, 0));
}

}  // namespace
}  // namespace bascule::test
