// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"

#include "src/base/check.h"

namespace bascule {

Backward::Backward(Graph& graph, Tensor input) : graph_(graph), forward_tensors_(graph.tensors().size()) {
  wanted_.resize(forward_tensors_, false);
  producer_.resize(forward_tensors_, 0);
  gradients_.resize(forward_tensors_);
  find_wanted(input);
}

void Backward::find_wanted(Tensor input) {
  for (std::size_t i = 0; i < forward_tensors_; ++i) {
    const TensorInfo& info = graph_.tensors()[i];
    wanted_[i] = info.storage == Storage::kParameter && graph_.parameters()[info.parameter].trained;
  }
  if (input) wanted_[index_of(input)] = true;
  const std::vector<Node>& nodes = graph_.nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    bool wanted = false;
    for (const Operand& operand : nodes[n].operands)
      wanted = wanted || (operand && operand.access != Access::kWrite && wants(operand.tensor));
    for (const Operand& operand : nodes[n].operands) {
      if (!operand || operand.access == Access::kRead) continue;
      producer_[index_of(operand.tensor)] = n;
      wanted_[index_of(operand.tensor)] = wanted && graph_[operand.tensor].storage != Storage::kState;
    }
  }
}

Tensor Backward::gradient(Tensor y) const { return gradients_[index_of(y)]; }

Operand Backward::slot(Tensor x) {
  if (!x || !wants(x)) return {};
  const bool is_parameter = graph_[x].storage == Storage::kParameter;
  Tensor& gradient = gradients_[index_of(x)];
  if (gradient) {
    if (gradient.index < static_cast<std::int32_t>(sharers_.size())) {
      // Adding to a shared gradient is right only when the others have been used up: their producers have been walked.
      for (const Tensor other : sharers_[index_of(gradient)]) {
        BASCULE_CHECK(other == x || producer_[index_of(other)] > node_);
      }
    }
    return {gradient, Access::kAdd};
  }
  if (is_parameter) {
    gradient = graph_.gradient_of_parameter(x);
    return {gradient, Access::kAddLater};
  }
  const TensorInfo info = graph_[x];
  const std::size_t slash = info.name.rfind('/');
  gradient = graph_.activation("d_" + (slash == std::string::npos ? info.name : info.name.substr(slash + 1)), info.rows,
                               info.cols, info.dtype);
  return {gradient, Access::kWrite};
}

void Backward::share(Tensor x, Tensor gradient) {
  BASCULE_CHECK(untouched(x));
  gradients_[index_of(x)] = gradient;
  if (sharers_.size() <= index_of(gradient)) sharers_.resize(index_of(gradient) + 1);
  std::vector<Tensor>& sharers = sharers_[index_of(gradient)];
  if (sharers.empty()) {
    for (std::size_t i = 0; i < forward_tensors_; ++i) {
      if (gradients_[i] == gradient) sharers.push_back(Tensor{static_cast<std::int32_t>(i)});
    }
  } else {
    sharers.push_back(x);
  }
}

Tensor derive_backward(Graph& graph, Tensor input) {
  Backward backward(graph, input);
  const std::size_t forward_nodes = graph.nodes().size();
  graph.set_backward(true);
  for (std::size_t n = forward_nodes; n-- > 0;) {
    backward.node_ = n;
    const Node node = graph.nodes()[n];  // a copy: the list grows
    if (node.kind->derive == nullptr) continue;
    graph.set_scope(node.scope);
    node.kind->derive(NodeView(graph, node), backward);
  }
  graph.set_backward(false);
  const Tensor gradient = input ? backward.gradient(input) : Tensor{};
  if (gradient) graph.keep(gradient);
  return gradient;
}

}  // namespace bascule
