// SPDX-License-Identifier: Apache-2.0
// Who sums and updates what. The update cuts the trained range into blocks; the ranks of a node share them out, and one
// block is summed, measured and updated by one rank: every strategy adds the same numbers in the same order, and gives
// the same bits.
#pragma once

#include <cstdint>

namespace bascule {

struct BlockRange {
  std::int64_t first = 0, count = 0;
};

// fast_ddp: one contiguous slice a rank; counts differ by at most one.
constexpr BlockRange slice_of(std::int64_t blocks, int local_rank, int local_size) noexcept {
  const std::int64_t begin = blocks * local_rank / local_size;
  return {begin, blocks * (local_rank + 1) / local_size - begin};
}

// Between nodes: of a lane's `blocks` of bucket `bucket`, every node owns a slice of equal size, within one block, the
// longer ones in turn. The k-th to be summed, in an order in which the owners take turns.
struct OwnedBlock {
  std::int64_t block = 0;
  int owner = 0;
};
constexpr OwnedBlock block_in_turn(std::int64_t blocks, std::int64_t k, std::int64_t bucket, int nodes) noexcept {
  // Slices have blocks / nodes blocks or one more.
  const std::int64_t whole_rounds = blocks / nodes;
  std::int64_t slice = k % nodes;
  if (k >= whole_rounds * nodes) {
    // The last round is of the longer slices alone.
    std::int64_t left = k - whole_rounds * nodes + 1;
    for (slice = -1; left > 0;) {
      ++slice;
      if (slice_of(blocks, static_cast<int>(slice), nodes).count > whole_rounds) --left;
    }
  }
  const std::int64_t first = slice_of(blocks, static_cast<int>(slice), nodes).first;
  return {first + k / nodes, static_cast<int>((slice + bucket) % nodes)};
}

}  // namespace bascule
