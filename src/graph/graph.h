// SPDX-License-Identifier: Apache-2.0
// A graph of operations on tensors, and its states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/dtype.h"
#include "src/base/span.h"
#include "src/graph/operation.h"
#include "src/graph/parameters.h"

namespace bascule {

// Memory that outlives a replay: caches of keys and values, tokens and scores of beams. One list for all graphs of a
// run, shared by name as parameters are: what one graph writes in a replay, it or another graph reads in a later one.
// Every state is zero before the first replay.

struct State {
  std::string name;
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::kFloat32;
};

class StateSet {
 public:
  // Returns the index of the state of that name, adding it if it is new. A second description must equal the first.
  int add(State state);
  int size() const { return static_cast<int>(states_.size()); }
  const State& operator[](int index) const { return states_[static_cast<std::size_t>(index)]; }

 private:
  std::vector<State> states_;
};

// Where each state lies, in bytes from the first one. Rows are rounded up to 16, as matrix products may touch them
// (gemm.h); offsets are multiples of 64.
struct StateLayout {
  struct Place {
    std::size_t offset = 0, bytes = 0;
  };
  std::vector<Place> places;  // by index
  std::size_t bytes = 0;
};

StateLayout lay_out_states(const StateSet& states);

// A graph: named tensors and the operations on them, in the order in which they run. Recorded by a model, extended by
// derive_backward(), then only read: by the planner (lifetimes) and by the seal (steps).

enum class Storage {
  kActivation,  // placed in the workspace by lifetime
  kInput,       // workspace, written by the caller before a replay: lives from the start
  kParameter,   // ParameterLayout
  kGradient,    // of a trained parameter, at the same offset of the gradient range
  kField,       // a field of the batch: elsewhere for each replay
  kState,       // StateLayout: keeps its values between replays, for every graph that names it
};

struct TensorInfo {
  std::string name;
  Extent rows;
  std::int64_t cols = 0;  // dense rows; matrix products may touch rows up to the next multiple of 16
  DType dtype = DType::kFloat32;
  Storage storage = Storage::kActivation;
  bool kept = false;    // read by the caller after the replay: lives to the end
  int parameter = -1;   // kParameter, kGradient
  bool packed = false;  // kParameter: as GemmTile::b_is_packed
  int field = -1;       // kField: its number among the graph's fields
  int state = -1;       // kState
  Tensor may_share;  // this tensor may take the storage of that one, if the operation that writes this is the last to
                     // read that
};

enum class Rounding;  // element_types.h

class Graph {
 public:
  // `bounds`: the largest batch that its tape will be given; `fields`: what its batches hold; `states`: those that it
  // may name, null for a graph that keeps none.
  Graph(ParameterSet& parameters, const BatchCounts& bounds, Fields fields = {}, StateSet* states = nullptr)
      : parameters_(parameters), states_(states), bounds_(bounds), fields_(std::move(fields)) {}

  Tensor activation(std::string name, Extent rows, std::int64_t cols, DType dtype = DType::kFloat32);
  // An activation with the rows and the element type of x.
  Tensor activation_like(std::string name, Tensor x, std::int64_t cols);
  Tensor input(std::string name, Extent rows, std::int64_t cols);
  // The field of that name, which must have been declared.
  Tensor field(std::string_view name);
  Tensor parameter(Parameter description);
  Tensor gradient_of_parameter(Tensor parameter);
  // The state of that name; the same tensor again for the same name. No gradient goes through it.
  Tensor state(State description);
  void keep(Tensor tensor) { tensors_[static_cast<std::size_t>(tensor.index)].kept = true; }
  void may_share(Tensor tensor, Tensor earlier) {
    tensors_[static_cast<std::size_t>(tensor.index)].may_share = earlier;
  }
  void add(const OperationKind& kind, std::vector<Operand> operands, const Attributes& attributes = {});

  void set_scope(std::string scope) { scope_ = std::move(scope); }
  // Until the next call, parameters and states are those of this part of a folder with several models: "part/" stands
  // before their names and their tensors'. Empty: of the only model.
  void set_part(std::string part) { part_ = std::move(part); }
  void set_backward(bool backward) { backward_ = backward; }

  const TensorInfo& operator[](Tensor tensor) const { return tensors_[static_cast<std::size_t>(tensor.index)]; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const ParameterSet& parameters() const { return parameters_; }
  const StateSet* states() const { return states_; }
  const BatchCounts& bounds() const { return bounds_; }
  const Fields& fields() const { return fields_; }
  const std::string& scope() const { return scope_; }
  std::int64_t max_rows(Tensor tensor) const { return (*this)[tensor].rows.at(bounds_); }
  // The tensor of that name; none if there is none.
  Tensor find(std::string_view name) const;

  // Emits the nodes from `first` to before `end` once more. `tensors` maps, by number, those that the copies read or
  // write in place of the originals'; it grows by a new activation for each one that the nodes write and it does not
  // map yet. An activation that they add to must be mapped, or be written by them before. The copies have the names of
  // the originals, which find() gives first, are not kept for the caller, and compute the same bits: what is dropped
  // depends on the place in the model alone.
  void emit_again(std::size_t first, std::size_t end, std::vector<Tensor>* tensors);
  // An operand of a node names another tensor from now on.
  void aim(std::size_t node, std::size_t place, Tensor tensor) { nodes_[node].operands[place].tensor = tensor; }
  // Puts the nodes into this order, by their numbers: each of them once.
  void reorder(const std::vector<std::size_t>& order);

 private:
  friend void choose_element_types(Graph& graph, Rounding rounding);
  friend std::vector<int> choose_packed_parameters(Span<Graph* const> graphs, const ParameterSet& parameters,
                                                   const KernelTable& kernels);
  friend void store_rounded_parameters(Span<Graph* const> graphs, ParameterSet* parameters);
  Tensor add_tensor(TensorInfo info);

  ParameterSet& parameters_;
  StateSet* states_;
  BatchCounts bounds_;
  Fields fields_;
  std::vector<TensorInfo> tensors_;
  std::vector<Node> nodes_;
  std::vector<Tensor> parameter_tensors_;  // by parameter index
  std::vector<Tensor> gradient_tensors_;
  std::vector<Tensor> state_tensors_;  // by state index
  std::string scope_, part_;
  bool backward_ = false;
};

// A node beside the graph that knows its tensors: what the functions of an OperationKind are given.
class NodeView {
 public:
  NodeView(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Graph& graph() const { return graph_; }
  // The tensor at a place of the operands; none where the place is empty. rows(), cols() and elements() need one.
  Tensor operator[](std::size_t place) const { return operand(place).tensor; }
  Operand operand(std::size_t place) const { return place < node_.operands.size() ? node_.operands[place] : Operand{}; }
  std::size_t operands() const { return node_.operands.size(); }
  const Attributes& attributes() const { return node_.attributes; }
  bool bf16_products() const { return node_.bf16_products; }
  template <typename Value>
  Value as() const {
    return node_.attributes.as<Value>();
  }
  Extent rows(std::size_t place) const { return graph_[(*this)[place]].rows; }
  std::int64_t cols(std::size_t place) const { return graph_[(*this)[place]].cols; }
  // Elements of a tensor in a batch of these counts, for costs.
  double elements(std::size_t place, const BatchCounts& counts) const {
    return static_cast<double>(rows(place).at(counts) * cols(place));
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

// The cost of an operation that takes so many operations and bytes for each element of the tensor at one place.
template <std::size_t place, int flops, int bytes>
Cost cost_by_elements(const NodeView& node, const BatchCounts& counts) {
  const double elements = node.elements(place, counts);
  return {flops * elements, bytes * elements};
}

// The cost of one replay of a node, with each operand in its own type: the kinds count four bytes an element.
Cost cost_of(const Graph& graph, const Node& node, const BatchCounts& counts);

// A "*" in place of each number between dots: "text_model.encoder.layer.*", a name for layers of one kind.
std::string layer_kind(const std::string& scope);

// For graphs without gradients: the parameters, by index, that can be packed for these kernels and that every reader
// may read so (GemmTile::b_is_packed). Their tensors are marked. No bit of a result changes. After element types are
// chosen.
std::vector<int> choose_packed_parameters(Span<Graph* const> graphs, const ParameterSet& parameters,
                                          const KernelTable& kernels);

// Trained parameters in the order in which this graph's last write of their gradients comes.
std::vector<int> gradient_order(const Graph& graph);

}  // namespace bascule
