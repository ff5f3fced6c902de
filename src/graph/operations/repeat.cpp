// SPDX-License-Identifier: Apache-2.0
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace repeat_operation {

// Whole tensors; a task is a range of the rows of one copy. The attribute is the number of copies (std::int64_t).
struct Block {
  void (*kernel)(const CopyRows&);
  float *whole, *repeated;
  std::int64_t rows, cols, copies;
  bool adds;  // backward: to what d_x holds
};

Block block_of(const NodeView& node, const Launch& l, std::size_t whole, std::size_t repeated) {
  return {l.kernels.copy_rows,
          l.at(node[whole]),
          l.at(node[repeated]),
          0,
          node.cols(whole),
          node.as<std::int64_t>(),
          false};
}

namespace gradient {
enum : std::size_t { kDY, kDX };

// In the order of the copies.
void run(const Block& b, Range range, int) {
  float* const d_x = b.whole + range.first * b.cols;
  for (std::int64_t copy = 0; copy < b.copies; ++copy)
    b.kernel({d_x, b.repeated + (copy * b.rows + range.first) * b.cols, range.count, b.cols, b.cols, b.cols,
              b.adds || copy > 0});
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(block_of(node, l, kDX, kDY), by_rows(node.rows(kDX), node.cols(kDX)), run);
  l.rows(&b->rows, node.rows(kDX));
  l.adds(&b->adds, node.operand(kDX).access);
}

constexpr OperationKind kKind{"repeat_rows_backward", cost_by_elements<kDY, 1, 8>, launch};
}  // namespace gradient

enum : std::size_t { kX, kY };

void run(const Block& b, Range range, int) {
  for (std::int64_t copy = 0; copy < b.copies; ++copy)
    b.kernel({b.repeated + (copy * b.rows + range.first) * b.cols, b.whole + range.first * b.cols, range.count, b.cols,
              b.cols, b.cols, false});
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y || !b.wants(node[kX])) return;
  b.emit(gradient::kKind, {reads(d_y), b.slot(node[kX])}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(block_of(node, l, kX, kY), by_rows(node.rows(kX), node.cols(kX)), run);
  l.rows(&b->rows, node.rows(kX));
}

constexpr OperationKind kKind{"repeat_rows", cost_by_elements<kY, 0, 8>, launch, derive};

}  // namespace repeat_operation
}  // namespace

Tensor repeat_rows(Graph& graph, const std::string& name, Tensor x, Extent rows) {
  if (graph[x].rows == rows) return x;
  const std::int64_t once = graph.max_rows(x), all = rows.at(graph.bounds());
  BASCULE_CHECK(all % once == 0);
  const Tensor y = graph.activation(name, rows, graph[x].cols);
  graph.add(repeat_operation::kKind, {reads(x), writes(y)}, Attributes::of(all / once));
  return y;
}

}  // namespace bascule
