// SPDX-License-Identifier: Apache-2.0
// The trained range in blocks, each summed, measured and updated by one rank; and which of them a rank has. Blocks have
// a fixed size and begin at fixed offsets, so that sums over them do not depend on ranks or threads. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/graph/parameters.h"

namespace bascule {

inline constexpr std::int64_t kUpdateBlockElements = 1 << 16;
inline constexpr std::size_t kMostLocalRanks = 512;

struct UpdateBlock {
  std::int64_t offset = 0, count = 0;  // in the trained range
  bool decayed = false;
  int group = -1;
  std::int32_t run = 0;             // of the layout
  std::int64_t rows = 0, cols = 0;  // of its tensor, whole rows; 0 unless the layout is divided by rows
};

// At most kUpdateBlockElements each; in a layout divided by rows as many rows as fit into that, at least one.
std::vector<UpdateBlock> cut_into_blocks(const ParameterLayout& layout);
// Without a list: layouts are planned that no machine could hold.
std::size_t block_count(const ParameterLayout& layout);

// A rank's slice of every bucket of blocks. Between nodes the owners of its blocks take turns.
struct OwnBlocks {
  std::vector<std::int32_t> numbers;    // in the order of summing
  std::vector<std::int32_t> owners;     // of these: nodes
  std::vector<std::int64_t> of_bucket;  // bucket b has those from [b] to [b + 1] of numbers

  std::int64_t count() const { return static_cast<std::int64_t>(numbers.size()); }
};
OwnBlocks own_blocks(const std::vector<UpdateBlock>& blocks, std::int64_t blocks_of_bucket, int local_rank,
                     int local_size, int nodes);

}  // namespace bascule
