// SPDX-License-Identifier: Apache-2.0
#include "src/graph/graph.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {

int StateSet::add(State state) {
  BASCULE_CHECK(state.rows > 0 && state.cols > 0);
  for (int i = 0; i < size(); ++i) {
    const State& known = (*this)[i];
    if (known.name != state.name) continue;
    BASCULE_CHECK(known.rows == state.rows && known.cols == state.cols && known.dtype == state.dtype);
    return i;
  }
  states_.push_back(std::move(state));
  return size() - 1;
}

StateLayout lay_out_states(const StateSet& states) {
  StateLayout layout;
  for (int i = 0; i < states.size(); ++i) {
    const std::int64_t rows = align_up<std::int64_t>(states[i].rows, 16);
    const std::size_t bytes =
        align_up(static_cast<std::size_t>(rows * states[i].cols) * element_bytes(states[i].dtype), kCacheLine);
    layout.places.push_back({layout.bytes, bytes});
    layout.bytes += bytes;
  }
  return layout;
}

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

Tensor Graph::activation_like(std::string name, Tensor x, std::int64_t cols) {
  const TensorInfo& info = (*this)[x];
  return activation(std::move(name), info.rows, cols, info.dtype);
}

Tensor Graph::input(std::string name, Extent rows, std::int64_t cols) {
  TensorInfo info;
  info.name = std::move(name);
  info.rows = rows;
  info.cols = cols;
  info.storage = Storage::kInput;
  return add_tensor(std::move(info));
}

Tensor Graph::field(std::string_view name) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].storage == Storage::kField && tensors_[i].name == name) return Tensor{static_cast<std::int32_t>(i)};
  }
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field& field) { return field.name == name; });
  BASCULE_CHECK(found != fields_.end());
  TensorInfo info;
  info.name = found->name;
  info.rows = found->rows;
  info.cols = found->cols;
  info.dtype = found->dtype;
  info.storage = Storage::kField;
  info.field = static_cast<int>(found - fields_.begin());
  return add_tensor(std::move(info));
}

Tensor Graph::parameter(Parameter description) {
  if (!part_.empty()) {
    description.name = part_ + "/" + description.name;
    for (ParameterPiece& piece : description.pieces) piece.name = part_ + "/" + piece.name;
  }
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

Tensor Graph::state(State description) {
  BASCULE_CHECK(states_ != nullptr);
  if (!part_.empty()) description.name = part_ + "/" + description.name;
  const int index = states_->add(std::move(description));
  state_tensors_.resize(std::max(state_tensors_.size(), static_cast<std::size_t>(index) + 1));
  Tensor& tensor = state_tensors_[static_cast<std::size_t>(index)];
  if (!tensor) {
    const State& state = (*states_)[index];
    TensorInfo info;
    info.name = state.name;
    info.rows = fixed_rows(state.rows);
    info.cols = state.cols;
    info.dtype = state.dtype;
    info.storage = Storage::kState;
    info.state = index;
    tensor = add_tensor(std::move(info));
  }
  return tensor;
}

void Graph::add(const OperationKind& kind, std::vector<Operand> operands, const Attributes& attributes) {
  nodes_.push_back({&kind, std::move(operands), attributes, scope_, backward_, false});
}

void Graph::emit_again(std::size_t first, std::size_t end, std::vector<Tensor>* tensors) {
  BASCULE_CHECK(first <= end && end <= nodes_.size());
  tensors->resize(tensors_.size());
  const auto again = [&](Tensor tensor) {
    const Tensor mapped = (*tensors)[index_of(tensor)];
    return mapped ? mapped : tensor;
  };
  for (std::size_t n = first; n < end; ++n) {
    Node copy = nodes_[n];
    for (Operand& operand : copy.operands) {
      if (!operand) continue;
      const std::size_t index = index_of(operand.tensor);
      if (operand.access == Access::kWrite && !(*tensors)[index] && tensors_[index].storage == Storage::kActivation) {
        TensorInfo info = tensors_[index];
        info.kept = false;
        if (info.may_share) info.may_share = again(info.may_share);
        (*tensors)[index] = add_tensor(std::move(info));
      }
      const bool adds = operand.access == Access::kAdd && tensors_[index].storage == Storage::kActivation;
      BASCULE_CHECK(!adds || (*tensors)[index]);
      operand.tensor = again(operand.tensor);
    }
    copy.backward = backward_;
    copy.again = true;
    nodes_.push_back(std::move(copy));
  }
}

void Graph::reorder(const std::vector<std::size_t>& order) {
  BASCULE_CHECK(order.size() == nodes_.size());
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  std::vector<bool> taken(nodes_.size(), false);
  for (const std::size_t n : order) {
    BASCULE_CHECK(n < taken.size() && !taken[n]);
    taken[n] = true;
    nodes.push_back(std::move(nodes_[n]));
  }
  nodes_ = std::move(nodes);
}

Tensor Graph::find(std::string_view name) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return Tensor{static_cast<std::int32_t>(i)};
  }
  return Tensor{};
}

Cost cost_of(const Graph& graph, const Node& node, const BatchCounts& counts) {
  const NodeView view(graph, node);
  Cost cost = node.kind->cost(view, counts);
  for (std::size_t place = 0; place < node.operands.size(); ++place) {
    if (node.operands[place] && graph[node.operands[place].tensor].dtype == DType::kBFloat16) {
      cost.bytes -= static_cast<double>(sizeof(float) - element_bytes(DType::kBFloat16)) * view.elements(place, counts);
    }
  }
  cost.bytes = std::max(cost.bytes, 0.0);
  return cost;
}

std::string layer_kind(const std::string& scope) {
  std::string kind;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string part = scope.substr(begin, end - begin);
    kind += !part.empty() && part.find_first_not_of("0123456789") == std::string::npos ? "*" : part;
    if (end == scope.size()) return kind;
    kind += '.';
    begin = end + 1;
  }
}

std::vector<int> choose_packed_parameters(Span<Graph* const> graphs, const ParameterSet& parameters,
                                          const KernelTable& kernels) {
  const std::size_t count = static_cast<std::size_t>(parameters.size());
  std::vector<bool> is_read(count, false), is_read_otherwise(count, false);
  for (const Graph* graph : graphs) {
    for (const Node& node : graph->nodes()) {
      for (std::size_t place = 0; place < node.operands.size(); ++place) {
        if (!node.operands[place]) continue;
        const TensorInfo& info = (*graph)[node.operands[place].tensor];
        if (info.storage != Storage::kParameter) continue;
        const std::size_t p = static_cast<std::size_t>(info.parameter);
        const bool is_bf16 = info.dtype == DType::kBFloat16;
        is_read[p] = true;
        if (!has_place(node.kind->packed_places, place) || node.bf16_products != is_bf16 ||
            !packs_columns(kernels, is_bf16, info.cols))
          is_read_otherwise[p] = true;
      }
    }
  }
  std::vector<int> packed;
  for (int p = 0; p < parameters.size(); ++p) {
    const std::size_t at = static_cast<std::size_t>(p);
    if (is_read[at] && !is_read_otherwise[at] && parameters[p].rows % kPackedCols == 0) packed.push_back(p);
  }
  for (Graph* graph : graphs) {
    for (TensorInfo& info : graph->tensors_) {
      if (info.storage == Storage::kParameter)
        info.packed = std::binary_search(packed.begin(), packed.end(), info.parameter);
    }
  }
  return packed;
}

std::vector<int> gradient_order(const Graph& graph) {
  std::vector<int> order;
  for (const Node& node : graph.nodes()) {
    for (const Operand& operand : node.operands) {
      if (!operand || operand.access == Access::kRead) continue;
      const TensorInfo& info = graph[operand.tensor];
      if (info.storage != Storage::kGradient) continue;
      order.erase(std::remove(order.begin(), order.end(), info.parameter), order.end());
      order.push_back(info.parameter);
    }
  }
  return order;
}

}  // namespace bascule
