// SPDX-License-Identifier: Apache-2.0
// Moments that the nodes share out among themselves: every block of the update has one node that holds its moments and
// updates it, and holds those of no other. A node's blocks lie one after another, in the order of the range of
// parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/graph/parameters.h"

namespace bascule {

struct MomentShards {
  struct Block {
    std::int64_t offset = 0, count = 0;  // in the range of parameters
    int node = 0;
    std::int64_t place = 0;  // in its node's range of moments
  };
  std::vector<Block> blocks;  // those of the update, ascending
  std::int64_t elements = 0;  // of the largest node's range

  // The block that holds this element of the range of parameters.
  std::size_t block_at(std::int64_t element) const noexcept;
};

// Between so many nodes of so many ranks: as Update shares out its blocks.
MomentShards shard_moments(const ParameterLayout& layout, int local_ranks, int nodes);

}  // namespace bascule
