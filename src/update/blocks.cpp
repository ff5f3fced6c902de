// SPDX-License-Identifier: Apache-2.0
#include "src/update/blocks.h"

#include <algorithm>

#include "src/base/align.h"
#include "src/distributed/slices.h"

namespace bascule {
namespace {

// With room for the gap behind the last row, of less than 16 elements.
std::int64_t rows_of_block(const ParameterLayout::Run& run) {
  return std::max<std::int64_t>(1, (kUpdateBlockElements - 15) / run.cols);
}

}  // namespace

std::vector<UpdateBlock> cut_into_blocks(const ParameterLayout& layout) {
  std::vector<UpdateBlock> blocks;
  for (std::size_t number = 0; number < layout.runs.size(); ++number) {
    const ParameterLayout::Run& run = layout.runs[number];
    const auto add = [&](std::int64_t first, std::int64_t count, std::int64_t rows) {
      blocks.push_back(
          {run.offset + first, count, run.decayed, run.group, static_cast<std::int32_t>(number), rows, run.cols});
    };
    if (run.rows == 0) {
      for (std::int64_t first = 0; first < run.elements; first += kUpdateBlockElements)
        add(first, std::min(run.elements - first, kUpdateBlockElements), 0);
      continue;
    }
    for (std::int64_t row = 0; row < run.rows; row += rows_of_block(run)) {
      const std::int64_t rows = std::min(rows_of_block(run), run.rows - row);
      const std::int64_t end =
          row + rows == run.rows ? run.elements : (row + rows) * run.cols;  // the gap is the last's
      add(row * run.cols, end - row * run.cols, rows);
    }
  }
  return blocks;
}

std::size_t block_count(const ParameterLayout& layout) {
  std::int64_t count = 0;
  for (const ParameterLayout::Run& run : layout.runs)
    count += run.rows == 0 ? divide_up(run.elements, kUpdateBlockElements) : divide_up(run.rows, rows_of_block(run));
  return static_cast<std::size_t>(count);
}

OwnBlocks own_blocks(const std::vector<UpdateBlock>& blocks, std::int64_t blocks_of_bucket, int local_rank,
                     int local_size, int nodes) {
  const std::int64_t count = static_cast<std::int64_t>(blocks.size());
  OwnBlocks own;
  own.of_bucket = {0};
  for (std::int64_t first = 0; first < count; first += blocks_of_bucket) {
    const BlockRange slice = slice_of(std::min(blocks_of_bucket, count - first), local_rank, local_size);
    std::vector<std::int64_t> elements;
    for (std::int64_t i = 0; i < slice.count; ++i)
      elements.push_back(blocks[static_cast<std::size_t>(first + slice.first + i)].count);
    for (const OwnedBlock& next : owned_in_turn(elements, first / blocks_of_bucket, nodes)) {
      own.numbers.push_back(static_cast<std::int32_t>(first + slice.first + next.block));
      own.owners.push_back(next.owner);
    }
    own.of_bucket.push_back(own.count());
  }
  return own;
}

}  // namespace bascule
