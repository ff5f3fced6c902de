// SPDX-License-Identifier: Apache-2.0
// A bias and a token type in one.
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace table_row_operation {

// The attribute of both is the row of the table, std::int64_t.
namespace gradient {
enum : std::size_t { kDOut, kDRow, kDTable };

// The first write of a table's gradient clears the other rows.
struct Block {
  void (*copy)(const CopyRows&);
  void (*fill)(const Fill&);
  float *d_row, *d_table;
  const float* d_out;
  std::int64_t cols, table_rows, index;
  bool adds_row, adds_table;
};

void run(const Block& b, Range, int) {
  if (b.d_row != nullptr) b.copy({b.d_row, b.d_out, 1, b.cols, b.cols, b.cols, b.adds_row});
  if (b.d_table == nullptr) return;
  if (!b.adds_table) b.fill({b.d_table, b.table_rows * b.cols, 0.0f});
  b.copy({b.d_table + b.index * b.cols, b.d_out, 1, b.cols, b.cols, b.cols, true});
}

Cost cost(const NodeView& node, const BatchCounts&) {
  const double cols = static_cast<double>(node.cols(kDOut));
  return {2.0 * cols, 20.0 * cols};
}

void launch(const NodeView& node, Launch& l) {
  const Operand d_row = node.operand(kDRow), d_table = node.operand(kDTable);
  Block* const b =
      l.step(Block{l.kernels.copy_rows, l.kernels.fill, l.at(d_row.tensor), l.at(d_table.tensor), l.at(node[kDOut]),
                   node.cols(kDOut), d_table ? node.rows(kDTable).fixed : 0, node.as<std::int64_t>(), false, false},
             whole(), run);
  l.adds(&b->adds_row, d_row.access);
  l.adds(&b->adds_table, d_table.access);
}

constexpr OperationKind kKind{"add_table_row_backward", cost, launch};
}  // namespace gradient

enum : std::size_t { kRow, kTable, kOut };

Cost cost(const NodeView& node, const BatchCounts&) {
  const double cols = static_cast<double>(node.cols(kRow));
  return {cols, 12.0 * cols};
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kOut])) return;
  const Operand d_row = b.slot(node[kRow]), d_table = b.slot(node[kTable]);
  b.emit(gradient::kKind, {reads(d_out), d_row, d_table}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kRow);
  l.kernel(l.kernels.add,
           {l.at(node[kOut]), l.at(node[kRow]), l.at(node[kTable]) + node.as<std::int64_t>() * cols, cols},
           {fixed_rows(cols), cols});
}

constexpr OperationKind kKind{"add_table_row", cost, launch, derive};

}  // namespace table_row_operation
}  // namespace

Tensor add_table_row(Graph& graph, const std::string& name, Tensor row, Tensor table, std::int64_t index) {
  const Tensor out = graph.activation_like(name, row, graph[row].cols);
  graph.add(table_row_operation::kKind, {reads(row), reads(table), writes(out)}, Attributes::of(index));
  return out;
}

}  // namespace bascule
