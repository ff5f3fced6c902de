// SPDX-License-Identifier: Apache-2.0
#include "kernels/norms.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/span.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace group_norm_operation {

// Attributes of the operation and of its gradient.
struct GroupNorm {
  std::int64_t groups;
  float epsilon;
  bool silu;
};

// The rows of a tensor by samples, and those of a sample in blocks, each of which is a task.
struct SampleBlocks {
  std::int64_t rows, block_rows;  // of a sample
  int stream;

  std::int64_t blocks() const { return divide_up(rows, block_rows); }
  Extent extent_of_blocks() const { return rows_of_stream(stream, blocks()); }
  TaskSplit split() const { return {extent_of_blocks(), 1}; }
  // The rows of a task, as rows of the whole tensor.
  Range rows_of(std::int64_t task) const {
    const std::int64_t sample = task / blocks(), first = task % blocks() * block_rows;
    return {sample * rows + first, std::min(block_rows, rows - first), sample};
  }
};

SampleBlocks blocks_of(const Extent& extent, std::int64_t channels) {
  return {extent.per_row, rows_per_task(channels), extent.stream};
}

// A kernel on rows of one sample.
template <typename Kernel>
struct RowsBlock {
  void (*kernel)(const Kernel&);
  Kernel whole;
  SampleBlocks blocks;
};

// Groups of a sample that one task finishes.
constexpr std::int64_t kGroupsPerTask = 4;

template <typename Kernel>
void cut_groups(Kernel* a, Range range) {
  a->first = range.first;
  a->count = range.count;
}

namespace gradient {
// kMeans (samples, 2 C); kParts (blocks, 2 C).
enum : std::size_t { kDY, kX, kWeight, kBias, kStatistics, kDX, kDWeight, kDBias, kParts, kMeans };

void run_sums(const RowsBlock<GroupNormBackwardSums>& b, Range range, int) {
  const Range rows = b.blocks.rows_of(range.task);
  GroupNormBackwardSums a = b.whole;
  a.parts += range.task * 2 * a.channels;
  a.d_y += rows.first * a.channels;
  a.x += rows.first * a.channels;
  a.statistics += rows.task * 2 * a.channels;
  a.rows = rows.count;
  b.kernel(a);
}

void run_rows(const RowsBlock<GroupNormBackward>& b, Range range, int) {
  const Range rows = b.blocks.rows_of(range.task);
  GroupNormBackward a = b.whole;
  a.d_x += rows.first * a.channels;
  a.d_y += rows.first * a.channels;
  a.x += rows.first * a.channels;
  a.statistics += rows.task * 2 * a.channels;
  a.means += rows.task * 2 * a.channels;
  a.rows = rows.count;
  b.kernel(a);
}

void add_parameter_gradients(const NodeView& node, Launch& l, const SampleBlocks& blocks) {
  const std::int64_t channels = node.cols(kX);
  const float* parts = l.at(node[kParts]);
  for (const std::size_t place : {kDWeight, kDBias}) {
    if (const Operand sum = node.operand(place)) l.add_sum_of_parts(sum, parts, channels, 2 * channels, blocks.split());
    parts += channels;
  }
}

void launch(const NodeView& node, Launch& l) {
  const GroupNorm attributes = node.as<GroupNorm>();
  const std::int64_t channels = node.cols(kX);
  const SampleBlocks blocks = blocks_of(node.rows(kX), channels);
  const float *const d_y = l.at(node[kDY]), *const x = l.at(node[kX]), *const statistics = l.at(node[kStatistics]),
                     *const gamma = l.at(node[kWeight]), *const beta = l.at(node[kBias]);
  float *const parts = l.at(node[kParts]), *const means = l.at(node[kMeans]);
  l.step(RowsBlock<GroupNormBackwardSums>{l.kernels.group_norm_backward_sums,
                                          {parts, d_y, x, statistics, gamma, beta, 0, channels, attributes.silu},
                                          blocks},
         blocks.split(), run_sums);
  l.begin_step();
  add_parameter_gradients(node, l, blocks);
  const Operand d_x = node.operand(kDX);
  if (!d_x) return;
  l.add_kernel(l.kernels.group_norm_backward_means,
               {means, parts, gamma, 0, 0, blocks.rows, blocks.blocks(), channels, attributes.groups},
               {rows_of_stream(blocks.stream, attributes.groups), kGroupsPerTask}, cut_groups<GroupNormBackwardMeans>);
  RowsBlock<GroupNormBackward>* const b = l.step(
      RowsBlock<GroupNormBackward>{
          l.kernels.group_norm_backward,
          {l.at(d_x.tensor), d_y, x, statistics, means, gamma, beta, 0, channels, attributes.silu, false},
          blocks},
      blocks.split(), run_rows);
  l.adds(&b->whole.accumulate, d_x.access);
}

constexpr OperationKind kKind{"group_norm_backward", cost_by_elements<kX, 40, 20>, launch};
}  // namespace gradient

// kParts (blocks, 3 C); kStatistics (samples, 2 C).
enum : std::size_t { kX, kWeight, kBias, kY, kStatistics, kParts };

void run_sums(const RowsBlock<GroupNormSums>& b, Range range, int) {
  const Range rows = b.blocks.rows_of(range.task);
  GroupNormSums a = b.whole;
  a.parts += range.task * 3 * a.channels;
  a.x += rows.first * a.channels;
  a.rows = rows.count;
  b.kernel(a);
}

void run_rows(const RowsBlock<GroupNormForward>& b, Range range, int) {
  const Range rows = b.blocks.rows_of(range.task);
  GroupNormForward a = b.whole;
  a.y += rows.first * a.channels;
  a.x += rows.first * a.channels;
  a.statistics += rows.task * 2 * a.channels;
  a.rows = rows.count;
  b.kernel(a);
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  const Operand d_weight = b.slot(node[kWeight]), d_bias = b.slot(node[kBias]), d_x = b.slot(node[kX]);
  if (!d_x && !d_weight && !d_bias) return;
  Graph& graph = b.graph();
  const std::int64_t channels = node.cols(kX);
  const SampleBlocks blocks = blocks_of(node.rows(kX), channels);
  if (d_x && d_x.access == Access::kWrite) graph.may_share(d_x.tensor, d_y);
  const Tensor parts = graph.activation("norm_parts", blocks.extent_of_blocks(), 2 * channels);
  const Operand means =
      d_x ? writes(graph.activation("norm_means", rows_of_stream(blocks.stream), 2 * channels)) : Operand{};
  b.emit(gradient::kKind,
         {reads(d_y), reads(node[kX]), reads(node[kWeight]), reads(node[kBias]), reads(node[kStatistics]), d_x,
          d_weight, d_bias, writes(parts), means},
         node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  const GroupNorm attributes = node.as<GroupNorm>();
  const std::int64_t channels = node.cols(kX);
  const SampleBlocks blocks = blocks_of(node.rows(kX), channels);
  const float* const x = l.at(node[kX]);
  float *const parts = l.at(node[kParts]), *const statistics = l.at(node[kStatistics]);
  l.step(RowsBlock<GroupNormSums>{l.kernels.group_norm_sums, {parts, x, 0, channels}, blocks}, blocks.split(),
         run_sums);
  l.kernel(l.kernels.group_norm_statistics,
           {statistics, parts, 0, 0, blocks.rows, blocks.block_rows, channels, attributes.groups, attributes.epsilon},
           {rows_of_stream(blocks.stream, attributes.groups), kGroupsPerTask}, cut_groups<GroupNormStatistics>);
  l.step(RowsBlock<GroupNormForward>{l.kernels.group_norm_forward,
                                     {l.elements(node[kY]), x, statistics, l.at(node[kWeight]), l.at(node[kBias]), 0,
                                      channels, attributes.silu},
                                     blocks},
         blocks.split(), run_rows);
}

constexpr OperationKind kKind{"group_norm", cost_by_elements<kX, 30, 12>, launch, derive, nullptr, places(kY)};

}  // namespace group_norm_operation
}  // namespace

Tensor group_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias, std::int64_t groups,
                  float epsilon, bool silu) {
  const Extent rows = graph[x].rows;
  const std::int64_t channels = graph[x].cols;
  BASCULE_CHECK(rows.per_row > 0 && rows.fixed == 0 && groups > 0 && channels % groups == 0);
  BASCULE_CHECK(graph[weight].cols == channels && graph[bias].cols == channels);
  const Tensor y = graph.activation(name, rows, channels);
  graph.may_share(y, x);
  const Tensor statistics = graph.activation(name + ".statistics", rows_of_stream(rows.stream), 2 * channels),
               parts = graph.activation(
                   name + ".parts", group_norm_operation::blocks_of(rows, channels).extent_of_blocks(), 3 * channels);
  graph.add(group_norm_operation::kKind,
            {reads(x), reads(weight), reads(bias), writes(y), writes(statistics), writes(parts)},
            Attributes::of(group_norm_operation::GroupNorm{groups, epsilon, silu}));
  return y;
}

}  // namespace bascule
