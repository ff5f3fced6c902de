// SPDX-License-Identifier: Apache-2.0
// Taking rows out of a tensor, putting them into a state, and putting columns side by side.
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace rows_operations {

// Copies a (rows, cols) block between tensors of other widths.
struct CopyBlock {
  void (*kernel)(const CopyRows&);
  CopyRows copy;
};

void copy_rows(Launch& l, const CopyRows& copy, Extent rows, Access access) {
  CopyBlock* const b = l.step(
      CopyBlock{l.kernels.copy_rows, copy}, whole(),
      +[](const CopyBlock& block, Range, int) { block.kernel(block.copy); });
  l.rows(&b->copy.rows, rows);
  l.adds(&b->copy.accumulate, access);
}

// Rows that an index names, or, without one, every `spacing`-th (the attribute, std::int64_t).
namespace scatter {
enum : std::size_t { kDOut, kIndex, kDX };

struct Block {
  void (*kernel)(const ScatterRows&);
  ScatterRows scatter;
};

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double values = node.elements(kDOut, counts);
  const bool clears = node.operand(kDX).access == Access::kWrite;
  return {values, 12.0 * values + (clears ? 4.0 * node.elements(kDX, counts) : 0.0)};
}

void launch(const NodeView& node, Launch& l) {
  float *const d_x = l.at(node[kDX]), *const d_out = l.at(node[kDOut]);
  const Extent rows = node.rows(kDOut);
  const std::int64_t cols = node.cols(kDOut);
  if (node.operand(kDX).access == Access::kWrite)
    l.kernel(l.kernels.fill, {d_x, 0, 0.0f}, by_elements(node.rows(kDX), cols));
  if (!node[kIndex]) {
    copy_rows(l, {d_x, d_out, 0, cols, node.as<std::int64_t>() * cols, cols, true}, rows, Access::kAdd);
    return;
  }
  Block* const b = l.step(
      Block{l.kernels.scatter_rows, {d_x, d_out, nullptr, 0, cols, true}}, whole(),
      +[](const Block& block, Range, int) { block.kernel(block.scatter); });
  l.operand(&b->scatter.index, node[kIndex]);
  l.rows(&b->scatter.rows, rows);
}

constexpr OperationKind kKind{"scatter_rows", cost, launch};
}  // namespace scatter

namespace gather {
enum : std::size_t { kX, kIndex, kOut };

struct Block {
  void (*kernel)(const GatherRows&);
  GatherRows gather;
};

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kX])) return;
  b.emit(scatter::kKind, {reads(d_out), reads(node[kIndex]), b.slot(node[kX])}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  float *const out = l.at(node[kOut]), *const x = l.at(node[kX]);
  const Extent rows = node.rows(kOut);
  const std::int64_t cols = node.cols(kOut);
  if (!node[kIndex]) {
    copy_rows(l, {out, x, 0, cols, cols, node.as<std::int64_t>() * cols, false}, rows, Access::kWrite);
    return;
  }
  Block* const b = l.step(
      Block{l.kernels.gather_rows, {out, x, nullptr, 0, cols}}, whole(),
      +[](const Block& block, Range, int) { block.kernel(block.gather); });
  l.operand(&b->gather.index, node[kIndex]);
  l.rows(&b->gather.rows, rows);
}

constexpr OperationKind kKind{"gather_rows", cost_by_elements<kOut, 0, 8>, launch, derive};

Tensor add(Graph& graph, const std::string& name, Tensor x, Tensor index, Extent rows, std::int64_t spacing) {
  const Tensor out = graph.activation(name, rows, graph[x].cols, graph[x].dtype);
  graph.add(kKind, {reads(x), reads(index), writes(out)}, Attributes::of(spacing));
  return out;
}
}  // namespace gather

namespace store {
enum : std::size_t { kX, kIndex, kState };

void launch(const NodeView& node, Launch& l) {
  scatter::Block* const b = l.step(
      scatter::Block{l.kernels.scatter_rows, {l.at(node[kState]), l.at(node[kX]), nullptr, 0, node.cols(kX), false}},
      whole(), +[](const scatter::Block& block, Range, int) { block.kernel(block.scatter); });
  l.operand(&b->scatter.index, node[kIndex]);
  l.rows(&b->scatter.rows, node.rows(kX));
}

constexpr OperationKind kKind{"store_rows", cost_by_elements<kX, 0, 8>, launch};
}  // namespace store

namespace concatenate_gradient {
enum : std::size_t { kDOut, kDHalf };

// The attribute is where the second half begins.
void launch(const NodeView& node, Launch& l) {
  const std::int64_t all = node.cols(kDOut), middle = node.as<std::int64_t>();
  for (std::size_t i = 0; i < 2; ++i) {
    const Operand d_half = node.operand(kDHalf + i);
    if (!d_half) continue;
    const std::int64_t cols = node.cols(kDHalf + i);
    copy_rows(l, {l.at(d_half.tensor), l.at(node[kDOut]) + (i == 0 ? 0 : middle), 0, cols, cols, all, false},
              node.rows(kDOut), d_half.access);
  }
}

constexpr OperationKind kKind{"concatenate_backward", cost_by_elements<kDOut, 0, 8>, launch};
}  // namespace concatenate_gradient

enum : std::size_t { kHalf = 0, kOut = 2 };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kOut])) return;
  const Operand first = b.slot(node[kHalf]), second = b.slot(node[kHalf + 1]);
  b.emit(concatenate_gradient::kKind, {reads(d_out), first, second}, Attributes::of(node.cols(kHalf)));
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t all = node.cols(kOut);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t cols = node.cols(kHalf + i);
    copy_rows(l, {l.at(node[kOut]) + (i == 0 ? 0 : node.cols(kHalf)), l.at(node[kHalf + i]), 0, cols, all, cols, false},
              node.rows(kOut), Access::kWrite);
  }
}

constexpr OperationKind kKind{"concatenate", cost_by_elements<kOut, 0, 8>, launch, derive};

}  // namespace rows_operations
}  // namespace

Tensor first_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows) {
  return rows_operations::gather::add(graph, name, x, rows.offsets, rows_per_sample(1), rows.extent.per_row);
}

Tensor gather_rows(Graph& graph, const std::string& name, Tensor x, Tensor index) {
  return rows_operations::gather::add(graph, name, x, index, graph[index].rows, 0);
}

void store_rows(Graph& graph, Tensor state, Tensor x, Tensor index) {
  BASCULE_CHECK(graph[state].storage == Storage::kState && graph[state].cols == graph[x].cols);
  graph.add(rows_operations::store::kKind, {reads(x), reads(index), updates(state)});
}

Tensor concatenate(Graph& graph, const std::string& name, Tensor a, Tensor b) {
  const Tensor out = graph.activation_like(name, a, graph[a].cols + graph[b].cols);
  graph.add(rows_operations::kKind, {reads(a), reads(b), writes(out)});
  return out;
}

}  // namespace bascule
