// SPDX-License-Identifier: Apache-2.0
// The bias of attention by the distance of key and query, made once for all layers from the table that they share.
// Small, so plain loops.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace relative_bias_operation {

// In one direction the bucket grows with the distance.
std::int64_t bucket_in_direction(const RelativeBuckets& rule, std::int64_t distance) {
  const std::int64_t buckets = rule.of_direction(), exact = buckets / 2;
  if (distance < exact) return distance;
  const double first = static_cast<double>(exact);
  const double share =
      fixed_log(static_cast<double>(distance) / first) / fixed_log(static_cast<double>(rule.max_distance) / first);
  const double further = std::floor(share * static_cast<double>(buckets - exact));
  return std::min(buckets - 1, exact + static_cast<std::int64_t>(further));
}

struct Attribute {
  RelativeBuckets rule;
  std::int64_t span;
};

// Whole tensors; a task is one head.
struct Shape {
  std::int64_t heads, span;
  bool bidirectional;
  std::int64_t of_direction;
  std::int32_t first[kMaxRelativeBuckets + 1];  // by bucket of a direction: its first distance; then `span`
};

Shape shape_of(const NodeView& node, std::int64_t heads) {
  const Attribute attribute = node.as<Attribute>();
  Shape shape{heads, attribute.span, attribute.rule.bidirectional, attribute.rule.of_direction(), {}};
  std::int64_t bucket = 0;
  for (std::int64_t distance = 0; distance < attribute.span; ++distance) {
    const std::int64_t own = bucket_in_direction(attribute.rule, distance);
    while (bucket <= own) shape.first[bucket++] = static_cast<std::int32_t>(distance);
  }
  while (bucket <= shape.of_direction) shape.first[bucket++] = static_cast<std::int32_t>(attribute.span);
  return shape;
}

// step(row of the table, first column, end column) for runs of columns that share a row, from left to right; a row may
// come in two of them.
template <typename Step>
void for_runs(const Shape& s, const Step& step) {
  const std::int64_t middle = s.span - 1;
  for (std::int64_t bucket = s.of_direction; bucket-- > 0;) {
    const std::int64_t first = s.first[bucket], end = s.first[bucket + 1];
    if (first < end) step(bucket, middle - end + 1, middle - first + 1);
  }
  if (!s.bidirectional) {
    step(0, middle + 1, middle + s.span);
    return;
  }
  for (std::int64_t bucket = 0; bucket < s.of_direction; ++bucket) {
    const std::int64_t first = std::max<std::int64_t>(1, s.first[bucket]), end = s.first[bucket + 1];
    if (first < end) step(s.of_direction + bucket, middle + first, middle + end);
  }
}

struct ForwardBlock {
  float* out;
  const float* table;
  Shape shape;
};

void run_forward(const ForwardBlock& b, Range range, int) {
  const Shape& s = b.shape;
  float* const out = b.out + range.task * (2 * s.span - 1);
  for_runs(s, [&](std::int64_t row, std::int64_t first, std::int64_t end) {
    for (std::int64_t c = first; c < end; ++c) out[c] = b.table[row * s.heads + range.task];
  });
}

namespace gradient {
enum : std::size_t { kDOut, kDTable };

struct Block {
  float* d_table;
  const float* d_out;
  Shape shape;
  std::int64_t rows;  // of the table
  bool adds;
};

void run(const Block& b, Range range, int) {
  const Shape& s = b.shape;
  double sums[2 * kMaxRelativeBuckets] = {};
  const float* const d_out = b.d_out + range.task * (2 * s.span - 1);
  for_runs(s, [&](std::int64_t row, std::int64_t first, std::int64_t end) {
    for (std::int64_t c = first; c < end; ++c) sums[row] += static_cast<double>(d_out[c]);
  });
  for (std::int64_t row = 0; row < b.rows; ++row) {
    float* const d = b.d_table + row * s.heads + range.task;
    const float sum = static_cast<float>(sums[row]);
    *d = b.adds ? *d + sum : sum;
  }
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t heads = node.cols(kDTable);
  const Operand d_table = node.operand(kDTable);
  Block* const b =
      l.step(Block{l.at(d_table.tensor), l.at(node[kDOut]), shape_of(node, heads), node.rows(kDTable).fixed, false},
             {fixed_rows(heads), 1}, run);
  l.adds(&b->adds, d_table.access);
}

constexpr OperationKind kKind{"relative_position_bias_backward", cost_by_elements<kDOut, 1, 4>, launch};
}  // namespace gradient

enum : std::size_t { kTable, kOut };

void launch(const NodeView& node, Launch& l) {
  const std::int64_t heads = node.cols(kTable);
  l.step(ForwardBlock{l.at(node[kOut]), l.at(node[kTable]), shape_of(node, heads)}, {fixed_rows(heads), 1},
         run_forward);
}

constexpr OperationKind kKind{"relative_position_bias", cost_by_elements<kOut, 0, 4>, launch,
                              derive_one<gradient::kKind, kOut, kTable>};

}  // namespace relative_bias_operation
}  // namespace

Tensor relative_position_bias(Graph& graph, const std::string& name, Tensor table, const RelativeBuckets& rule,
                              std::int64_t span) {
  const std::int64_t buckets = rule.of_direction();
  BASCULE_CHECK(buckets >= 2 && buckets <= kMaxRelativeBuckets && rule.max_distance > buckets / 2);
  BASCULE_CHECK(span >= 1 && span <= INT32_MAX && graph[table].rows == fixed_rows(rule.buckets));
  const std::int64_t heads = graph[table].cols;
  const Tensor out = graph.activation(name, fixed_rows(heads), 2 * span - 1);
  graph.add(relative_bias_operation::kKind, {reads(table), writes(out)},
            Attributes::of(relative_bias_operation::Attribute{rule, span}));
  return out;
}

}  // namespace bascule
