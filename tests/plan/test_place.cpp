// SPDX-License-Identifier: Apache-2.0
#include "src/plan/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

// Sizes and lifetimes as graphs have them: many small and short, some large or long, some without a byte; equal ones
// among them.
std::vector<BufferRequest> random_requests(Seeded& random, std::int64_t count) {
  std::vector<BufferRequest> requests;
  const std::int64_t times = random.integer(1, 2 * count);
  for (std::int64_t i = 0; i < count; ++i) {
    BufferRequest request;
    request.bytes = static_cast<std::size_t>(random.chance(0.05)  ? 0
                                             : random.chance(0.3) ? 4096 * random.integer(1, 3)
                                                                  : random.integer(1, 5000));
    request.first = static_cast<int>(random.integer(0, times - 1));
    request.last = static_cast<int>(
        std::min<std::int64_t>(times - 1, request.first + random.integer(0, random.chance(0.2) ? times : 4)));
    requests.push_back(request);
  }
  return requests;
}

TEST(Place, BuffersAliveTogetherNeverOverlap) {
  Seeded random(31);
  for (int round = 0; round < 300; ++round) {
    const std::vector<BufferRequest> requests = random_requests(random, random.integer(0, 120));
    const Placement placement = place_buffers(requests);
    ASSERT_EQ(placement.offsets.size(), requests.size());
    EXPECT_EQ(first_overlap(requests, placement), std::nullopt);
    for (const std::size_t offset : placement.offsets) EXPECT_EQ(offset % 64, 0u);
  }
}

TEST(Place, NoPlacementIsSmallerThanTheLowerBound) {
  Seeded random(32);
  for (int round = 0; round < 300; ++round) {
    const std::vector<BufferRequest> requests = random_requests(random, random.integer(1, 120));
    EXPECT_GE(place_buffers(requests).peak_bytes, lower_bound_bytes(requests));
  }
}

TEST(Place, LowerBoundIsTheLargestSumAliveAtOneTime) {
  Seeded random(33);
  for (int round = 0; round < 100; ++round) {
    const std::vector<BufferRequest> requests = random_requests(random, 60);
    std::size_t most = 0;
    for (int time = 0; time < 121; ++time) {
      std::size_t alive = 0;
      for (const BufferRequest& request : requests)
        alive += request.first <= time && time <= request.last ? request.bytes : 0;
      most = std::max(most, alive);
    }
    EXPECT_EQ(lower_bound_bytes(requests), most);
  }
}

TEST(Place, TheOrderOfRequestsChangesNothing) {
  Seeded random(34);
  for (int round = 0; round < 100; ++round) {
    std::vector<BufferRequest> requests = random_requests(random, 80);
    const std::size_t peak = place_buffers(requests).peak_bytes;
    random.shuffle(requests);
    EXPECT_EQ(place_buffers(requests).peak_bytes, peak);
  }
}

TEST(Place, BuffersThatNeverMeetShareOnePlace) {
  const std::vector<BufferRequest> requests = {{1000, 0, 1}, {1000, 2, 3}, {900, 4, 9}};
  const Placement placement = place_buffers(requests);
  EXPECT_EQ(placement.offsets, (std::vector<std::size_t>{0, 0, 0}));
  EXPECT_EQ(placement.peak_bytes, 1000u);
}

TEST(Place, NothingNeedsNothing) {
  EXPECT_EQ(place_buffers({}).peak_bytes, 0u);
  EXPECT_EQ(lower_bound_bytes({}), 0u);
}

TEST(FirstOverlap, FindsAPlantedOverlap) {
  Seeded random(35);
  int planted = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<BufferRequest> requests = random_requests(random, 40);
    Placement placement = place_buffers(requests);
    const std::size_t a = static_cast<std::size_t>(random.integer(0, 39)),
                      b = static_cast<std::size_t>(random.integer(0, 39));
    const bool alive_together = requests[a].first <= requests[b].last && requests[b].first <= requests[a].last;
    if (a == b || !alive_together || requests[a].bytes == 0 || requests[b].bytes == 0) continue;
    placement.offsets[a] = placement.offsets[b] + requests[b].bytes - 1;  // one byte in common
    placement.peak_bytes += 1 << 20;
    ++planted;
    EXPECT_NE(first_overlap(requests, placement), std::nullopt);
  }
  EXPECT_GT(planted, 10);
}

TEST(FirstOverlap, FindsABufferThatLeavesTheArena) {
  const std::vector<BufferRequest> requests = {{100, 0, 1}, {100, 2, 2}};
  const auto found = first_overlap(requests, {{0, 64}, 163});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, (std::pair<std::size_t, std::size_t>{1, 1}));
  EXPECT_EQ(first_overlap(requests, {{0, 64}, 164}), std::nullopt);
}

TEST(FirstOverlap, NeighboursInPlaceOrTimeDoNotOverlap) {
  EXPECT_EQ(first_overlap(std::vector<BufferRequest>{{64, 0, 1}, {64, 0, 1}}, {{0, 64}, 128}), std::nullopt);
  EXPECT_EQ(first_overlap(std::vector<BufferRequest>{{64, 0, 1}, {64, 2, 3}}, {{0, 0}, 64}), std::nullopt);
  EXPECT_NE(first_overlap(std::vector<BufferRequest>{{64, 0, 1}, {64, 1, 3}}, {{0, 0}, 64}), std::nullopt);
}

}  // namespace
}  // namespace bascule::test
