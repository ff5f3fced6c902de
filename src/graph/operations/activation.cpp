// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace activation_operation {

namespace gradient {
enum : std::size_t { kDY, kX, kDX };

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kX);
  const std::int64_t cols = node.cols(kX);
  ActivationBackward* const a = l.kernel(l.kernels.activation_backward,
                                         {l.elements(node[kDX]), nullptr, l.elements(node[kDY]), l.elements(node[kX]),
                                          0, cols, node.as<Activation>(), false},
                                         by_rows(rows, cols));
  l.adds(&a->accumulate, node.operand(kDX).access);
}

constexpr OperationKind kKind{"activation_backward", cost_by_elements<kX, 30, 12>, launch, nullptr, nullptr,
                              places(kDY, kX, kDX)};
}  // namespace gradient

enum : std::size_t { kX, kY };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  const Operand d_x = b.slot(node[kX]);
  if (!d_x) return;
  if (d_x.access == Access::kWrite) b.graph().may_share(d_x.tensor, d_y);
  b.emit(gradient::kKind, {reads(d_y), reads(node[kX]), d_x}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  l.kernel(l.kernels.activation_forward, {l.elements(node[kY]), l.elements(node[kX]), 0, node.as<Activation>()},
           by_elements(node.rows(kX), node.cols(kX)));
}

constexpr OperationKind kKind{"activation", cost_by_elements<kX, 25, 8>, launch, derive, nullptr, places(kX, kY)};

}  // namespace activation_operation
}  // namespace

Tensor activation(Graph& graph, const std::string& name, Tensor x, Activation kind) {
  const Tensor y = graph.activation_like(name, x, graph[x].cols);
  graph.may_share(y, x);
  graph.add(activation_operation::kKind, {reads(x), writes(y)}, Attributes::of(kind));
  return y;
}

}  // namespace bascule
