// SPDX-License-Identifier: Apache-2.0
// The trained range in blocks, each summed, measured and updated by one rank; and which of them a rank has. Blocks have
// a fixed size and begin at fixed offsets, so that sums over them do not depend on ranks or threads. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/graph/parameters.h"

namespace bascule {

inline constexpr std::int64_t kUpdateBlockElements = 1 << 16;
inline constexpr std::size_t kMostLocalRanks = 512;

struct UpdateBlock {
  std::int64_t offset = 0, count = 0;  // in the trained range
  bool decayed = false;
  int group = -1;
  std::int32_t run = 0;  // of the layout
  // 0 unless the layout is divided by matrices. Of whole matrices, or of one part of a matrix: whole rows. Of a vector,
  // or a part of it: one row.
  std::int64_t rows = 0, cols = 0;
  std::int64_t matrix_rows = 0;      // of one matrix; 0: a vector
  std::int32_t part = 0, parts = 1;  // of its matrix
  std::int64_t rows_before = 0;      // in its matrix
};

// At most kUpdateBlockElements each. In a layout divided by matrices as many of those as fit into that, or of the rows
// of one: at least one row.
std::vector<UpdateBlock> cut_into_blocks(const ParameterLayout& layout);
// Without a list: layouts are planned that no machine could hold.
std::size_t block_count(const ParameterLayout& layout);

// Floats that an optimizer which measures columns needs for a block: a row of sums for each of its matrices, or for its
// part of one, and a number behind each row. The room of a matrix's parts lies end to end.
std::int64_t column_room(const UpdateBlock& block);
// The room of all its blocks, without a list. part_begins: elements of the trained range, ascending, at which it is
// used again: of parts that are updated one after another.
std::int64_t column_room(const ParameterLayout& layout, Span<const std::int64_t> part_begins = {});

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
