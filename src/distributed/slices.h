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

}  // namespace bascule
