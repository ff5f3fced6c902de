// SPDX-License-Identifier: Apache-2.0
// Attention to keys and values that earlier replays have left in a state: that of a decoder which reads one token of
// each row at a time.
#include <cmath>

#include "src/base/check.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {

struct Shape {
  std::int64_t query_col, key_col, value_col;
  std::int64_t heads, head_size;
  float scale;
  bool causal;
};

// Whole tensors; a task is one head of one group.
struct Block {
  void (*kernel)(const AttentionForward&);
  AttentionForward whole;               // of the first group
  const std::int32_t* offsets;          // of queries; null: one a group
  const std::int32_t *rows, *counts;    // of keys
  std::int64_t heads, most, distances;  // most: columns of `rows`
  float* scratch;
};

void run(const Block& b, Range range, int) {
  const std::int64_t group = range.task / b.heads, head = range.task % b.heads;
  const std::int64_t first = b.offsets != nullptr ? b.offsets[group] : group;
  AttentionForward a = b.whole;
  a.query_rows = b.offsets != nullptr ? b.offsets[group + 1] - first : 1;
  a.key_rows = b.counts[group];
  a.key_index = b.rows + group * b.most;
  a.out += first * a.out_stride + head * a.head_size;
  a.query += first * a.query_stride + head * a.head_size;
  a.key += head * a.head_size;
  a.value += head * a.head_size;
  a.logsumexp += first * b.heads + head * a.query_rows;
  a.head = head;
  if (a.bias != nullptr) a.bias += head * b.distances + b.distances / 2;
  if (a.bias != nullptr || a.causal) a.query_position = a.key_rows - a.query_rows;
  a.scratch = b.scratch;
  b.kernel(a);
}

enum : std::size_t { kQuery, kState, kOffsets, kRows, kCounts, kBias, kOut, kLogsumexp };

// Of the most keys that a group may have.
Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double queries = node.elements(kQuery, counts), most = static_cast<double>(node.cols(kRows));
  return {4.0 * queries * most, 4.0 * (2.0 * queries + node.elements(kRows, counts) * 2.0 * static_cast<double>(node.cols(kOut)))};
}

std::int64_t scratch_floats(const NodeView& node) {
  return attention_scratch_floats(node.cols(kRows), node.as<Shape>().head_size);
}

void launch(const NodeView& node, Launch& l) {
  const Shape shape = node.as<Shape>();
  Block block{};
  block.kernel = l.kernels.attention_forward;
  AttentionForward& a = block.whole;
  a.out = l.elements(node[kOut]);
  a.query = l.elements(node[kQuery]) + shape.query_col;
  a.key = l.elements(node[kState]) + shape.key_col;
  a.value = l.elements(node[kState]) + shape.value_col;
  a.logsumexp = l.at(node[kLogsumexp]);
  a.out_stride = node.cols(kOut);
  a.query_stride = node.cols(kQuery);
  a.key_stride = a.value_stride = node.cols(kState);
  a.head_size = shape.head_size;
  a.scale = shape.scale;
  a.causal = shape.causal;
  a.bias = l.at(node[kBias]);
  block.heads = shape.heads;
  block.most = node.cols(kRows);
  block.distances = a.bias != nullptr ? node.cols(kBias) : 0;
  Block* const stored = l.step(block, {node.rows(kCounts).times(shape.heads), 1}, run);
  l.operand(&stored->offsets, node[kOffsets]);
  l.operand(&stored->rows, node[kRows]);
  l.operand(&stored->counts, node[kCounts]);
  l.scratch(&stored->scratch);
}

constexpr OperationKind kKind{"cached_attention", cost, launch, nullptr, scratch_floats, places(kQuery, kOut)};

}  // namespace

Tensor cached_attention(Graph& graph, const std::string& name, AttentionOperand query, const SampleRows& query_rows,
                        const CachedKeys& keys, std::int64_t heads, std::int64_t head_size,
                        const AttentionOptions& options) {
  BASCULE_CHECK(graph[keys.state].storage == Storage::kState && graph[keys.rows].rows == graph[keys.counts].rows);
  BASCULE_CHECK(!options.bias || graph[options.bias].rows == fixed_rows(heads));
  Shape shape{query.col, keys.key_col, keys.value_col, heads, head_size, options.scale, options.causal};
  if (shape.scale == 0.0f) shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
  const Tensor out = graph.activation(name, query_rows.extent, heads * head_size);
  const Tensor logsumexp = graph.activation(name + ".logsumexp", query_rows.extent, heads);
  graph.add(kKind,
            {reads(query.tensor), reads(keys.state), reads(query_rows.offsets), reads(keys.rows), reads(keys.counts),
             reads(options.bias), writes(out), writes(logsumexp)},
            Attributes::of(shape));
  return out;
}

}  // namespace bascule
