// SPDX-License-Identifier: Apache-2.0
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace add_operation {

namespace gradient {
// Adds the gradient of the sum to that of one operand.
enum : std::size_t { kDY, kDX };

void launch(const NodeView& node, Launch& l) {
  Scale* const a = l.kernel(l.kernels.scale, {l.at(node[kDX]), l.at(node[kDY]), 0, 1.0f, false},
                            by_elements(node.rows(kDY), node.cols(kDY)));
  l.adds(&a->accumulate, node.operand(kDX).access);
}

constexpr OperationKind kKind{"add_backward", cost_by_elements<kDY, 0, 8>, launch};
}  // namespace gradient

enum : std::size_t { kA, kB, kY };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  for (const std::size_t place : {kA, kB}) {
    if (b.wants(node[place])) b.emit(gradient::kKind, {reads(d_y), b.slot(node[place])});
  }
}

void launch(const NodeView& node, Launch& l) {
  l.kernel(l.kernels.add, {l.at(node[kY]), l.at(node[kA]), l.at(node[kB]), 0},
           by_elements(node.rows(kY), node.cols(kY)));
}

constexpr OperationKind kKind{"add", cost_by_elements<kY, 1, 12>, launch, derive};

}  // namespace add_operation
}  // namespace

Tensor add(Graph& graph, const std::string& name, Tensor a, Tensor b) {
  BASCULE_CHECK(graph[a].rows == graph[b].rows && graph[a].cols == graph[b].cols);
  const Tensor y = graph.activation_like(name, a, graph[a].cols);
  graph.may_share(y, a);
  graph.add(add_operation::kKind, {reads(a), reads(b), writes(y)});
  return y;
}

}  // namespace bascule
