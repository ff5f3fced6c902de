// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace scale_operation {

// The same operation forward, and on gradients backward. The attribute is the factor (float).
enum : std::size_t { kX, kY };

void launch(const NodeView& node, Launch& l) {
  Scale* const a = l.kernel(l.kernels.scale, {l.at(node[kY]), l.at(node[kX]), 0, node.as<float>(), false},
                            by_elements(node.rows(kX), node.cols(kX)));
  l.adds(&a->accumulate, node.operand(kY).access);
}

constexpr OperationKind kGradient{"scale_backward", cost_by_elements<kX, 1, 8>, launch};

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y || !b.wants(node[kX])) return;
  const Operand d_x = b.slot(node[kX]);
  if (d_x.access == Access::kWrite) b.graph().may_share(d_x.tensor, d_y);
  b.emit(kGradient, {reads(d_y), d_x}, node.attributes());
}

constexpr OperationKind kKind{"scale", cost_by_elements<kX, 1, 8>, launch, derive};

}  // namespace scale_operation
}  // namespace

Tensor scale(Graph& graph, const std::string& name, Tensor x, float factor) {
  const Tensor y = graph.activation_like(name, x, graph[x].cols);
  graph.may_share(y, x);
  graph.add(scale_operation::kKind, {reads(x), writes(y)}, Attributes::of(factor));
  return y;
}

}  // namespace bascule
