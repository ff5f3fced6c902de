// SPDX-License-Identifier: Apache-2.0
#include "src/update/blocks.h"

#include <algorithm>

#include "src/distributed/bucket_reducer.h"

namespace bascule {
namespace {

// With room for the gap behind the last row, of less than 16 elements. Whole matrices, or rows of one.
std::int64_t rows_of_block(const ParameterLayout::Run& run) {
  const std::int64_t rows = std::max<std::int64_t>(1, (kUpdateBlockElements - 15) / run.cols);
  return rows < run.rows ? rows : rows / run.rows * run.rows;
}

void add_blocks_of_matrices(const ParameterLayout::Run& run, std::int32_t number, std::vector<UpdateBlock>* blocks) {
  const std::int64_t all = run.matrices * run.rows, most = rows_of_block(run);
  for (std::int64_t row = 0; row < all;) {
    UpdateBlock block{run.offset + row * run.cols, 0, run.decayed, run.group, number};
    block.cols = run.cols;
    block.rows = std::min(most, all - row);
    block.matrix_rows = run.rows;
    block.rows_before = row % run.rows;
    if (most < run.rows) {
      block.parts = static_cast<std::int32_t>(divide_up(run.rows, most));
      block.part = static_cast<std::int32_t>(block.rows_before / most);
      block.rows = std::min(most, run.rows - block.rows_before);
    }
    row += block.rows;
    // The gap is the last's.
    block.count = row == all ? run.offset + run.elements - block.offset : block.rows * block.cols;
    blocks->push_back(block);
  }
}

}  // namespace

std::vector<UpdateBlock> cut_into_blocks(const ParameterLayout& layout) {
  std::vector<UpdateBlock> blocks;
  for (std::size_t number = 0; number < layout.runs.size(); ++number) {
    const ParameterLayout::Run& run = layout.runs[number];
    if (run.matrices > 0) {
      add_blocks_of_matrices(run, static_cast<std::int32_t>(number), &blocks);
      continue;
    }
    for (std::int64_t first = 0; first < run.elements; first += kUpdateBlockElements) {
      UpdateBlock block{run.offset + first, std::min(run.elements - first, kUpdateBlockElements), run.decayed,
                        run.group, static_cast<std::int32_t>(number)};
      block.rows = run.rows;
      block.cols = std::min(block.count, std::max<std::int64_t>(run.cols - first, 0));  // without the gap
      blocks.push_back(block);
    }
  }
  return blocks;
}

std::size_t block_count(const ParameterLayout& layout) {
  std::int64_t count = 0;
  for (const ParameterLayout::Run& run : layout.runs) {
    if (run.matrices == 0) {
      count += divide_up(run.elements, kUpdateBlockElements);
    } else if (rows_of_block(run) < run.rows) {
      count += run.matrices * divide_up(run.rows, rows_of_block(run));
    } else {
      count += divide_up(run.matrices * run.rows, rows_of_block(run));
    }
  }
  return static_cast<std::size_t>(count);
}

std::int64_t column_room(const UpdateBlock& block) {
  if (block.matrix_rows == 0) return 0;
  return (block.parts > 1 ? 1 : block.rows / block.matrix_rows) * (block.cols + 1);
}

std::int64_t column_room(const ParameterLayout& layout, Span<const std::int64_t> part_begins) {
  std::int64_t most_room = 0, room = 0;
  for (const ParameterLayout::Run& run : layout.runs) {
    if (std::binary_search(part_begins.begin(), part_begins.end(), run.offset)) room = 0;
    if (run.matrices > 0) {
      const std::int64_t most = rows_of_block(run);
      room += run.matrices * (most < run.rows ? divide_up(run.rows, most) : 1) * (run.cols + 1);
    }
    most_room = std::max(most_room, room);
  }
  return most_room;
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
