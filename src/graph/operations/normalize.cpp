// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace normalize_operation {

namespace gradient {
enum : std::size_t { kDY, kY, kNorm, kDX };

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kY);
  const std::int64_t cols = node.cols(kY);
  NormalizeBackward* const a = l.kernel(
      l.kernels.normalize_backward,
      {l.at(node[kDX]), l.at(node[kDY]), l.at(node[kY]), l.at(node[kNorm]), 0, cols, false}, by_rows(rows, cols));
  l.adds(&a->accumulate, node.operand(kDX).access);
}

constexpr OperationKind kKind{"normalize_backward", cost_by_elements<kY, 5, 12>, launch};
}  // namespace gradient

enum : std::size_t { kX, kY, kNorm };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y || !b.wants(node[kX])) return;
  b.emit(gradient::kKind, {reads(d_y), reads(node[kY]), reads(node[kNorm]), b.slot(node[kX])});
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kX);
  l.kernel(l.kernels.normalize_forward, {l.at(node[kY]), l.at(node[kNorm]), l.at(node[kX]), 0, cols},
           by_rows(node.rows(kX), cols));
}

constexpr OperationKind kKind{"normalize", cost_by_elements<kX, 3, 8>, launch, derive};

}  // namespace normalize_operation
}  // namespace

Tensor normalize(Graph& graph, const std::string& name, Tensor x) {
  const Tensor norm = graph.activation(name + ".norm", graph[x].rows, 1);
  const Tensor y = graph.activation_like(name, x, graph[x].cols);
  graph.add(normalize_operation::kKind, {reads(x), writes(y), writes(norm)});
  return y;
}

}  // namespace bascule
