// SPDX-License-Identifier: Apache-2.0
#include "src/update/moment_shards.h"

#include <algorithm>

#include "src/distributed/slices.h"
#include "src/update/update.h"

namespace bascule {

std::size_t MomentShards::block_at(std::int64_t element) const noexcept {
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), element,
                                      [](std::int64_t e, const Block& block) { return e < block.offset; });
  return static_cast<std::size_t>(after - blocks.begin()) - 1;
}

MomentShards shard_moments(const ParameterLayout& layout, int local_ranks, int nodes) {
  MomentShards shards;
  for (const Update::Block& block : Update::cut(layout)) shards.blocks.push_back({block.offset, block.count, 0, 0});
  const std::int64_t count = static_cast<std::int64_t>(shards.blocks.size());
  for (int rank = 0; rank < local_ranks; ++rank) {
    const BlockRange slice = slice_of(count, rank, local_ranks);
    std::vector<std::int64_t> elements;
    for (std::int64_t i = 0; i < slice.count; ++i)
      elements.push_back(shards.blocks[static_cast<std::size_t>(slice.first + i)].count);
    for (const OwnedBlock& owned : owned_in_turn(elements, 0, nodes)) {
      shards.blocks[static_cast<std::size_t>(slice.first + owned.block)].node = owned.owner;
    }
  }
  std::vector<std::int64_t> ends(static_cast<std::size_t>(nodes));
  for (MomentShards::Block& block : shards.blocks) {
    std::int64_t& end = ends[static_cast<std::size_t>(block.node)];
    block.place = end;
    end += block.count;
  }
  shards.elements = *std::max_element(ends.begin(), ends.end());
  return shards;
}

}  // namespace bascule
