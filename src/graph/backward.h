// SPDX-License-Identifier: Apache-2.0
// Deriving backward operations from forward ones. Nodes are walked from last to first; each states its gradient through
// this class. Contributions to one gradient are written by the first and added by the later ones, in the walk's order.
#pragma once

#include <utility>
#include <vector>

#include "src/graph/graph.h"
#include "src/graph/operation.h"

namespace bascule {

class Backward {
 public:
  Backward(Graph& graph, Tensor input);

  Graph& graph() { return graph_; }
  // Whether anything that is trained, or the wanted input, lies at or below x. Where nothing does, no gradient is made.
  bool wants(Tensor x) const { return wanted_[index_of(x)]; }
  // The finished gradient of something the current node wrote; none if nobody used it.
  Tensor gradient(Tensor y) const;
  // Where the current node puts its contribution to x's gradient, and how: the first contribution overwrites (kWrite; a
  // parameter's: kAddLater), later ones add. None where no gradient is wanted.
  Operand slot(Tensor x);
  // Whether x has no contribution yet, and so could take over another tensor's gradient.
  bool untouched(Tensor x) const { return !gradients_[index_of(x)]; }
  // x's gradient is `gradient` itself, not a copy. x must be untouched and its producer must run its backward before
  // anything adds to `gradient`: slot() checks that.
  void share(Tensor x, Tensor gradient);
  void emit(const OperationKind& kind, std::vector<Operand> operands, const Attributes& attributes = {}) {
    graph_.add(kind, std::move(operands), attributes);
  }

 private:
  friend Tensor derive_backward(Graph& graph, Tensor input);
  void find_wanted(Tensor input);

  Graph& graph_;
  std::size_t node_ = 0;  // being walked
  std::size_t forward_tensors_ = 0;
  std::vector<bool> wanted_;                  // by tensor
  std::vector<std::size_t> producer_;         // by tensor: the node that wrote it
  std::vector<Tensor> gradients_;             // by tensor
  std::vector<std::vector<Tensor>> sharers_;  // by gradient tensor: whose gradient it is
};

// derive() of an operation from x to y, of which x alone has a gradient. That reads the gradient of y and the operands
// at the places `read`, in this order, then writes that of x; its attributes are the operation's.
template <const OperationKind& gradient, std::size_t y, std::size_t x, std::size_t... read>
void derive_one(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[y]);
  if (!d_y || !b.wants(node[x])) return;
  b.emit(gradient, {reads(d_y), reads(node[read])..., b.slot(node[x])}, node.attributes());
}

// The same where the gradient of x may take the storage of y's.
template <const OperationKind& gradient, std::size_t y, std::size_t x, std::size_t... read>
void derive_in_place(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[y]);
  if (!d_y || !b.wants(node[x])) return;
  const Operand d_x = b.slot(node[x]);
  if (d_x.access == Access::kWrite) b.graph().may_share(d_x.tensor, d_y);
  b.emit(gradient, {reads(d_y), reads(node[read])..., d_x}, node.attributes());
}

// The cost of a gradient that takes twice what its operation does.
template <Cost (*forward)(const NodeView&, const BatchCounts&)>
Cost twice(const NodeView& node, const BatchCounts& counts) {
  const Cost once = forward(node, counts);
  return {2.0 * once.flops, 2.0 * once.bytes};
}

// Appends the backward operations. The graph's loss operations are the roots: their derive() needs no gradient of the
// loss. input: one whose gradient is wanted beside those of the parameters; returns it, kept, or none.
Tensor derive_backward(Graph& graph, Tensor input = {});

}  // namespace bascule
