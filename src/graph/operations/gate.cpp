// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace gate_operation {

// Attributes of the operation and of its gradient.
struct Gate {
  Activation activation;
  GatedHalf half;
  DropoutPlace dropout;
};

namespace gradient {
enum : std::size_t { kDY, kX, kKeys, kDX };

void launch(const NodeView& node, Launch& l) {
  const Gate attributes = node.as<Gate>();
  GateBackward a{};
  a.d_x = l.elements(node[kDX]);
  a.d_y = l.elements(node[kDY]);
  a.x = l.elements(node[kX]);
  a.cols = node.cols(kDY);
  a.kind = attributes.activation;
  a.half = attributes.half;
  GateBackward* const stored = l.kernel(l.kernels.gate_backward, a, by_rows(node.rows(kX), node.cols(kX)));
  l.operand(&stored->row_keys, node[kKeys]);
  l.dropout(&stored->dropout, attributes.dropout);
}

constexpr OperationKind kKind{"gate_backward", cost_by_elements<kDY, 60, 20>, launch, nullptr,
                              nullptr,         places(kDY, kX, kDX)};
}  // namespace gradient

enum : std::size_t { kX, kKeys, kY };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  const Operand d_x = b.slot(node[kX]);
  if (!d_x) return;
  BASCULE_CHECK(d_x.access == Access::kWrite);  // what is gated is read by nobody else
  b.graph().may_share(d_x.tensor, node[kX]);
  b.emit(gradient::kKind, {reads(d_y), reads(node[kX]), reads(node[kKeys]), d_x}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  const Gate attributes = node.as<Gate>();
  GateForward a{};
  a.y = l.elements(node[kY]);
  a.x = l.elements(node[kX]);
  a.cols = node.cols(kY);
  a.kind = attributes.activation;
  a.half = attributes.half;
  GateForward* const stored = l.kernel(l.kernels.gate_forward, a, by_rows(node.rows(kX), node.cols(kX)));
  l.operand(&stored->row_keys, node[kKeys]);
  l.dropout(&stored->dropout, attributes.dropout);
}

constexpr OperationKind kKind{"gate", cost_by_elements<kY, 45, 12>, launch, derive, nullptr, places(kX, kY)};

}  // namespace gate_operation
}  // namespace

Tensor gate(Graph& graph, const std::string& name, Tensor x, Activation kind, DropoutPlace dropout, Tensor row_keys,
            GatedHalf half) {
  const Tensor y = graph.activation_like(name, x, graph[x].cols / 2);
  const Tensor keys = dropout.probability > 0.0f ? row_keys : Tensor{};
  graph.add(gate_operation::kKind, {reads(x), reads(keys), writes(y)},
            Attributes::of(gate_operation::Gate{kind, half, dropout}));
  return y;
}

}  // namespace bascule
