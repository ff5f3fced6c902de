// SPDX-License-Identifier: Apache-2.0
// Keys and values that are kept in a state, and attention to them in later replays: that of a decoder which reads one
// token of each row at a time.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace cached_attention_operations {

namespace store {
enum : std::size_t { kX, kIndex, kState };

struct Shape {
  std::int64_t key_col, value_col, heads;
};

// Whole tensors.
struct Block {
  void (*kernel)(const CopyRows&);
  float* state;
  const float* x;
  const std::int32_t* index;  // null: rows follow one another
  Shape shape;
  std::int64_t head_size, places, x_stride;
};

void run(const Block& b, Range range, int) {
  const std::int64_t width = 2 * b.head_size;
  const std::int64_t together = b.index == nullptr ? range.count : 1;  // rows whose places follow one another
  for (std::int64_t r = range.first; r < range.end(); r += together) {
    const float* const x = b.x + r * b.x_stride;
    for (std::int64_t head = 0; head < b.shape.heads; ++head) {
      float* const to = b.state + (head * b.places + (b.index != nullptr ? b.index[r] : r)) * width;
      const std::int64_t col = head * b.head_size;
      b.kernel({to, x + b.shape.key_col + col, together, b.head_size, width, b.x_stride, false});
      b.kernel({to + b.head_size, x + b.shape.value_col + col, together, b.head_size, width, b.x_stride, false});
    }
  }
}

void launch(const NodeView& node, Launch& l) {
  const Shape shape = node.as<Shape>();
  Block* const b = l.step(Block{l.kernels.copy_rows, l.at(node[kState]), l.at(node[kX]), nullptr, shape,
                                node.cols(kState) / 2, node.rows(kState).fixed / shape.heads, node.cols(kX)},
                          by_rows(node.rows(kX), node.cols(kX)), run);
  l.operand(&b->index, node[kIndex]);
}

constexpr OperationKind kKind{"store_keys", cost_by_elements<kX, 0, 8>, launch};
}  // namespace store

struct Shape {
  std::int64_t query_col;
  std::int64_t heads, head_size;
  float scale;
  bool causal;
};

// Whole tensors; a task is one head of one group.
struct Block {
  void (*kernel)(const AttentionForward&);
  AttentionForward whole;       // of the first group
  const std::int32_t* offsets;  // of queries; null: each group has rows_each
  std::int64_t rows_each;
  const std::int32_t *places, *counts;  // of keys
  std::int64_t heads, most, distances;  // most: columns of `places`
  std::int64_t head_elements;           // of the state
  float* scratch;
};

// Whether the places follow one another, as those of a source or of a row without beams do.
bool are_in_order(const std::int32_t* places, std::int64_t count) {
  bool are = true;
  for (std::int64_t i = 1; i < count; ++i) are = are && places[i] == places[0] + i;
  return are;
}

void run(const Block& b, Range range, int) {
  const std::int64_t group = range.task / b.heads, head = range.task % b.heads;
  const std::int64_t first = b.offsets != nullptr ? b.offsets[group] : group * b.rows_each;
  AttentionForward a = b.whole;
  a.query_rows = b.offsets != nullptr ? b.offsets[group + 1] - first : b.rows_each;
  a.key_rows = b.counts[group];
  a.key_index = b.places + group * b.most;
  a.out += first * a.out_stride + head * a.head_size;
  a.query += first * a.query_stride + head * a.head_size;
  a.key += head * b.head_elements;
  a.value += head * b.head_elements;
  if (are_in_order(a.key_index, a.key_rows)) {
    a.key += a.key_index[0] * a.key_stride;
    a.value += a.key_index[0] * a.value_stride;
    a.key_index = nullptr;
  }
  a.logsumexp += first * b.heads + head * a.query_rows;
  a.head = head;
  if (a.bias != nullptr) a.bias += head * b.distances + b.distances / 2;
  if (a.bias != nullptr || a.causal) a.query_position = a.key_rows - a.query_rows;
  a.scratch = b.scratch;
  b.kernel(a);
}

enum : std::size_t { kQuery, kState, kOffsets, kPlaces, kCounts, kBias, kOut, kLogsumexp };

// The cost with the most keys that a group may have.
Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double queries = node.elements(kQuery, counts), most = static_cast<double>(node.cols(kPlaces));
  return {4.0 * queries * most,
          4.0 * (2.0 * queries + node.elements(kPlaces, counts) * 2.0 * static_cast<double>(node.cols(kOut)))};
}

std::int64_t scratch_floats(const NodeView& node) {
  return attention_forward_scratch_floats(node.cols(kPlaces), node.as<Shape>().head_size);
}

void launch(const NodeView& node, Launch& l) {
  const Shape shape = node.as<Shape>();
  Block block{};
  block.kernel = l.kernels.attention_forward;
  AttentionForward& a = block.whole;
  a.out = l.elements(node[kOut]);
  a.query = l.elements(node[kQuery]) + shape.query_col;
  a.key = l.elements(node[kState]);
  a.value = l.elements(node[kState]) + shape.head_size;
  a.logsumexp = l.at(node[kLogsumexp]);
  a.out_stride = node.cols(kOut);
  a.query_stride = node.cols(kQuery);
  a.key_stride = a.value_stride = node.cols(kState);
  a.head_size = shape.head_size;
  a.scale = shape.scale;
  a.causal = shape.causal;
  a.bias = l.at(node[kBias]);
  block.rows_each = node.rows(kQuery).per_row;
  block.heads = shape.heads;
  block.head_elements = node.rows(kState).fixed / shape.heads * node.cols(kState);
  block.most = node.cols(kPlaces);
  block.distances = a.bias != nullptr ? node.cols(kBias) : 0;
  Block* const stored = l.step(block, {node.rows(kCounts).times(shape.heads), 1}, run);
  l.operand(&stored->offsets, node[kOffsets]);
  l.operand(&stored->places, node[kPlaces]);
  l.operand(&stored->counts, node[kCounts]);
  l.scratch(&stored->scratch);
}

constexpr OperationKind kKind{"cached_attention", cost, launch, nullptr, scratch_floats, places(kQuery, kOut)};

}  // namespace cached_attention_operations
}  // namespace

void store_keys(Graph& graph, Tensor state, Tensor x, std::int64_t key_col, std::int64_t value_col, std::int64_t heads,
                Tensor index) {
  const TensorInfo& to = graph[state];
  BASCULE_CHECK(to.storage == Storage::kState && to.rows.fixed % heads == 0);
  BASCULE_CHECK(std::max(key_col, value_col) + heads * to.cols / 2 <= graph[x].cols);
  BASCULE_CHECK(index || graph.max_rows(x) * heads <= to.rows.fixed);
  graph.add(cached_attention_operations::store::kKind, {reads(x), reads(index), updates(state)},
            Attributes::of(cached_attention_operations::store::Shape{key_col, value_col, heads}));
}

Tensor cached_attention(Graph& graph, const std::string& name, AttentionOperand query, const SampleRows& query_rows,
                        const CachedKeys& keys, std::int64_t heads, std::int64_t head_size,
                        const AttentionOptions& options) {
  BASCULE_CHECK(graph[keys.state].storage == Storage::kState && graph[keys.state].cols == 2 * head_size);
  BASCULE_CHECK(graph[keys.places].rows == graph[keys.counts].rows);
  BASCULE_CHECK(!options.bias || graph[options.bias].rows == fixed_rows(heads));
  cached_attention_operations::Shape shape{query.col, heads, head_size, options.scale, options.causal};
  if (shape.scale == 0.0f) shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
  const Tensor out = graph.activation(name, query_rows.extent, heads * head_size);
  const Tensor logsumexp = graph.activation(name + ".logsumexp", query_rows.extent, heads);
  graph.add(cached_attention_operations::kKind,
            {reads(query.tensor), reads(keys.state), reads(query_rows.offsets), reads(keys.places), reads(keys.counts),
             reads(options.bias), writes(out), writes(logsumexp)},
            Attributes::of(shape));
  return out;
}

}  // namespace bascule
