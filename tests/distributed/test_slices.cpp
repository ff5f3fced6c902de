// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/bucket_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace bascule::test {
namespace {

TEST(Slices, OfALaneAreOwnedOnceEachByNodesInTurn) {
  for (const int nodes : {1, 2, 3, 5}) {
    for (std::size_t blocks = 0; blocks <= 40; ++blocks) {
      std::vector<std::int64_t> elements;  // whole blocks, and ends of runs between them
      for (std::size_t b = 0; b < blocks; ++b) elements.push_back(b % 3 == 1 ? static_cast<std::int64_t>(b) : 65536);
      const std::int64_t all = std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
      std::vector<int> seen(blocks);
      std::vector<std::int64_t> owned(static_cast<std::size_t>(nodes));
      for (const OwnedBlock& next : owned_in_turn(elements, 1, nodes)) {
        ++seen.at(static_cast<std::size_t>(next.block));
        owned.at(static_cast<std::size_t>(next.owner)) += elements.at(static_cast<std::size_t>(next.block));
      }
      EXPECT_EQ(static_cast<std::size_t>(std::count(seen.begin(), seen.end(), 1)), blocks);
      for (const std::int64_t one : owned) EXPECT_LE(std::abs(one - all / nodes), 65536 + 40);
    }
  }
}

TEST(Slices, TakeTurnsFromTheFirstToTheLast) {
  std::vector<int> owners;
  for (const OwnedBlock& next : owned_in_turn(std::vector<std::int64_t>(6, 100), 0, 3)) owners.push_back(next.owner);
  EXPECT_EQ(owners, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

// One block a bucket: it is not always the same node's.
TEST(Slices, OfBucketsBeginWithAnotherNodeEach) {
  std::vector<int> owned(3);
  for (std::int64_t bucket = 0; bucket < 9; ++bucket)
    ++owned.at(static_cast<std::size_t>(owned_in_turn({65536}, bucket, 3).front().owner));
  EXPECT_EQ(owned, std::vector<int>(3, 3));
}

}  // namespace
}  // namespace bascule::test
