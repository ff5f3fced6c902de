// SPDX-License-Identifier: Apache-2.0
// Divides the work of summing and updating among the ranks. The update cuts the trained range into blocks; the ranks of
// a node share them out, and one block is summed, measured and updated by one rank: every strategy adds the same
// numbers in the same order, and gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace bascule {

struct BlockRange {
  std::int64_t first = 0, count = 0;
};

// fast_ddp: one contiguous slice a rank; counts differ by at most one.
constexpr BlockRange slice_of(std::int64_t blocks, int local_rank, int local_size) noexcept {
  const std::int64_t begin = blocks * local_rank / local_size;
  return {begin, blocks * (local_rank + 1) / local_size - begin};
}

// Between nodes: the blocks of a lane and a bucket are cut into one contiguous slice a node, as equal in elements as
// blocks permit, and every bucket's first slice is another node's. In an order in which the owners take turns, so that
// all have something to send and to receive at any time.
struct OwnedBlock {
  std::int64_t block = 0;
  int owner = 0;
};
inline std::vector<OwnedBlock> owned_in_turn(const std::vector<std::int64_t>& elements, std::int64_t bucket,
                                             int nodes) {
  const std::int64_t all = std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
  std::vector<std::vector<std::int64_t>> slices(static_cast<std::size_t>(nodes));
  std::int64_t before = 0;
  for (std::size_t b = 0; b < elements.size(); ++b) {
    slices[static_cast<std::size_t>((before + elements[b] / 2) * nodes / all)].push_back(static_cast<std::int64_t>(b));
    before += elements[b];
  }
  std::vector<OwnedBlock> turns;
  for (std::size_t turn = 0; turns.size() < elements.size(); ++turn) {
    for (std::size_t slice = 0; slice < slices.size(); ++slice) {
      if (turn >= slices[slice].size()) continue;
      turns.push_back({slices[slice][turn], static_cast<int>((static_cast<std::int64_t>(slice) + bucket) % nodes)});
    }
  }
  return turns;
}

}  // namespace bascule
