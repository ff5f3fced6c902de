// SPDX-License-Identifier: Apache-2.0
#include "src/graph/graph.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace bascule {

void Operation::derive(Backward&) const {}

Tensor Graph::add_tensor(TensorInfo info) {
  tensors_.push_back(std::move(info));
  return Tensor{static_cast<std::int32_t>(tensors_.size() - 1)};
}

Tensor Graph::activation(std::string name, Extent rows, std::int64_t cols, DType dtype) {
  BASCULE_CHECK(cols > 0);
  TensorInfo info;
  info.name = scope_.empty() ? std::move(name) : scope_ + "/" + name;
  info.rows = rows;
  info.cols = cols;
  info.dtype = dtype;
  return add_tensor(std::move(info));
}

Tensor Graph::input(std::string name, Extent rows, std::int64_t cols) {
  TensorInfo info;
  info.name = std::move(name);
  info.rows = rows;
  info.cols = cols;
  info.storage = Storage::kInput;
  return add_tensor(std::move(info));
}

Tensor Graph::parameter(Parameter description) {
  const int index = parameters_.add(std::move(description));
  parameter_tensors_.resize(std::max(parameter_tensors_.size(), static_cast<std::size_t>(index) + 1));
  Tensor& tensor = parameter_tensors_[static_cast<std::size_t>(index)];
  if (!tensor) {
    const Parameter& parameter = parameters_[index];
    TensorInfo info;
    info.name = parameter.name;
    info.rows = fixed_rows(parameter.rows);
    info.cols = parameter.cols;
    info.storage = Storage::kParameter;
    info.parameter = index;
    tensor = add_tensor(std::move(info));
  }
  return tensor;
}

Tensor Graph::gradient_of_parameter(Tensor parameter) {
  TensorInfo info = (*this)[parameter];
  BASCULE_CHECK(info.storage == Storage::kParameter);
  const std::size_t index = static_cast<std::size_t>(info.parameter);
  gradient_tensors_.resize(std::max(gradient_tensors_.size(), index + 1));
  if (!gradient_tensors_[index]) {
    info.name = "d_" + info.name;
    info.storage = Storage::kGradient;
    const Tensor gradient = add_tensor(std::move(info));
    gradient_tensors_[index] = gradient;
  }
  return gradient_tensors_[index];
}

void Graph::add(std::unique_ptr<const Operation> operation) {
  Node node;
  node.operation = std::move(operation);
  node.scope = scope_;
  node.backward = backward_;
  nodes_.push_back(std::move(node));
}

Tensor Graph::find(const std::string& name) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return Tensor{static_cast<std::int32_t>(i)};
  }
  return Tensor{};
}

std::vector<int> gradient_order(const Graph& graph) {
  std::vector<int> order;
  for (const Node& node : graph.nodes()) {
    for (const TensorUse& use : node.operation->uses()) {
      const TensorInfo& info = graph[use.tensor];
      if (use.access == Access::kRead || info.storage != Storage::kGradient) continue;
      order.erase(std::remove(order.begin(), order.end(), info.parameter), order.end());
      order.push_back(info.parameter);
    }
  }
  return order;
}

}  // namespace bascule
