// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace bascule::test {
namespace {

TEST(Slices, OfALaneAreOwnedOnceEachByNodesInTurn) {
  for (const int nodes : {2, 3, 5}) {
    for (std::int64_t blocks = 0; blocks <= 13; ++blocks) {
      for (std::int64_t bucket = 0; bucket < 4; ++bucket) {
        std::vector<int> seen(static_cast<std::size_t>(blocks)), owned(static_cast<std::size_t>(nodes));
        for (std::int64_t k = 0; k < blocks; ++k) {
          const OwnedBlock next = block_in_turn(blocks, k, bucket, nodes);
          ++seen.at(static_cast<std::size_t>(next.block));
          ++owned.at(static_cast<std::size_t>(next.owner));
          const auto [least, most] = std::minmax_element(owned.begin(), owned.end());
          EXPECT_LE(*most - *least, 1) << "after " << k << " of " << blocks << " between " << nodes;
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), blocks);
      }
    }
  }
}

// One block a bucket: it is not always the same node's.
TEST(Slices, TheLongerOnesOfBucketsFallToAllNodes) {
  std::vector<int> owned(3);
  for (std::int64_t bucket = 0; bucket < 9; ++bucket)
    ++owned.at(static_cast<std::size_t>(block_in_turn(1, 0, bucket, 3).owner));
  EXPECT_EQ(owned, std::vector<int>(3, 3));
}

}  // namespace
}  // namespace bascule::test
