// SPDX-License-Identifier: Apache-2.0
// A graph: named tensors and the operations on them, in the order in which they run. Recorded by a model, extended by
// derive_backward(), then only read: by the planner (lifetimes) and by the seal (steps).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/graph/operation.h"
#include "src/graph/parameters.h"

namespace bascule {

enum class Storage {
  kActivation,  // placed in the workspace by lifetime
  kInput,       // workspace, written by the caller before a replay: lives from the start
  kParameter,   // ParameterLayout
  kGradient,    // of a trained parameter, at the same offset of the gradient range
};

struct TensorInfo {
  std::string name;
  Extent rows;
  std::int64_t cols = 0;  // dense rows; matrix products may touch rows up to the next multiple of 16
  DType dtype = DType::kFloat32;
  Storage storage = Storage::kActivation;
  bool kept = false;   // read by the caller after the replay: lives to the end
  int parameter = -1;  // kParameter, kGradient
  Tensor may_share;    // this tensor may take the storage of that one, if the operation that writes this is the last to
                       // read that
};

struct Node {
  std::unique_ptr<const Operation> operation;
  std::string scope;  // where in the model, for reports: "text_model.encoder.layer.3"
  bool backward = false;
};

class Graph {
 public:
  // `bounds`: the largest batch that its tape will be given.
  Graph(ParameterSet& parameters, const BatchCounts& bounds) : parameters_(parameters), bounds_(bounds) {}

  Tensor activation(std::string name, Extent rows, std::int64_t cols, DType dtype = DType::kFloat32);
  Tensor input(std::string name, Extent rows, std::int64_t cols);
  Tensor parameter(Parameter description);
  Tensor gradient_of_parameter(Tensor parameter);
  void keep(Tensor tensor) { tensors_[static_cast<std::size_t>(tensor.index)].kept = true; }
  void may_share(Tensor tensor, Tensor earlier) {
    tensors_[static_cast<std::size_t>(tensor.index)].may_share = earlier;
  }
  void add(std::unique_ptr<const Operation> operation);

  void set_scope(std::string scope) { scope_ = std::move(scope); }
  void set_backward(bool backward) { backward_ = backward; }

  const TensorInfo& operator[](Tensor tensor) const { return tensors_[static_cast<std::size_t>(tensor.index)]; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const ParameterSet& parameters() const { return parameters_; }
  const BatchCounts& bounds() const { return bounds_; }
  const std::string& scope() const { return scope_; }
  std::int64_t max_rows(Tensor tensor) const { return (*this)[tensor].rows.at(bounds_); }
  // The tensor of that name; none if there is none.
  Tensor find(const std::string& name) const;

 private:
  Tensor add_tensor(TensorInfo info);

  ParameterSet& parameters_;
  BatchCounts bounds_;
  std::vector<TensorInfo> tensors_;
  std::vector<Node> nodes_;
  std::vector<Tensor> parameter_tensors_;  // by parameter index
  std::vector<Tensor> gradient_tensors_;
  std::string scope_;
  bool backward_ = false;
};

// Trained parameters in the order in which this graph's last write of their gradients comes.
std::vector<int> gradient_order(const Graph& graph);

}  // namespace bascule
