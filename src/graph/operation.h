// SPDX-License-Identifier: Apache-2.0
// Operations as values, and arrays with an element for each tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "src/base/batch.h"

namespace bascule {

// An operation of a graph is a value: its kind, its operands and its attributes. It can be copied, and emitted again
// for other tensors. A kind is one constant: its name, how its gradient is made of other operations, what it costs,
// what scratch it needs, and the steps that it becomes on a tape. A kind and its gradient share a file under
// operations/.

class Backward;
class Graph;
class Launch;
class NodeView;

// A tensor of a graph, by number. Negative: none.
struct Tensor {
  std::int32_t index = -1;
  constexpr explicit operator bool() const { return index >= 0; }
  constexpr bool operator==(Tensor other) const { return index == other.index; }
};

enum class Access : std::uint8_t {
  kRead,
  kWrite,
  kUpdate,    // reads what is there and writes it again
  kAdd,       // adds to what is there
  kAddLater,  // the tape's first write of a parameter's gradient: overwrites in the first micro-batch, then adds
};

struct Operand {
  Tensor tensor;
  Access access = Access::kRead;
  constexpr explicit operator bool() const { return static_cast<bool>(tensor); }
};

constexpr Operand reads(Tensor tensor) { return {tensor, Access::kRead}; }
constexpr Operand writes(Tensor tensor) { return {tensor, Access::kWrite}; }
constexpr Operand updates(Tensor tensor) { return {tensor, Access::kUpdate}; }

// The attributes of a node, beside its operands: a plain value of its kind's own type.
class Attributes {
 public:
  Attributes() = default;
  template <typename Value>
  static Attributes of(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= sizeof bytes_);
    Attributes attributes;
    std::memcpy(attributes.bytes_, &value, sizeof value);
    return attributes;
  }
  template <typename Value>
  Value as() const {
    Value value;
    std::memcpy(&value, bytes_, sizeof value);
    return value;
  }

 private:
  unsigned char bytes_[128] = {};
};

// One place where the model drops elements. probability 0: it does not. `operation`: a number of its own.
struct DropoutPlace {
  float probability = 0.0f;
  std::uint32_t operation = 0;
};

struct Cost {
  double flops = 0.0;  // multiply and add count as two
  double bytes = 0.0;  // read and written once each
};

struct OperationKind {
  const char* name;
  Cost (*cost)(const NodeView& node, const BatchCounts& counts);
  void (*launch)(const NodeView& node, Launch& launch);
  // Emits the operations that turn gradients of what it writes into gradients of what it reads. Null: it has none.
  void (*derive)(const NodeView& node, Backward& backward) = nullptr;
  // Scratch that one thread needs while it runs a task, in floats. Null: none.
  std::int64_t (*thread_scratch_floats)(const NodeView& node) = nullptr;
  // Places whose tensor may be bf16 or float32, as places() gives them; at all others it is float32.
  std::uint32_t bf16_places = 0;
  // Those of them that the operation reads rounded to bf16 where its products are bf16.
  std::uint32_t rounding_places = 0;
  // Those whose parameter may be packed, where TensorInfo says so (GemmTile::b_is_packed).
  std::uint32_t packed_places = 0;
};

// A set of places of operands.
template <typename... Place>
constexpr std::uint32_t places(Place... place) {
  return (0u | ... | (1u << place));
}
constexpr bool has_place(std::uint32_t set, std::size_t place) { return (set >> place & 1u) != 0; }

// Operands stand at places that the kind's file names; a place may be empty, and one tensor may stand at several.
struct Node {
  const OperationKind* kind = nullptr;
  std::vector<Operand> operands;
  Attributes attributes;
  std::string scope;  // where in the model, for reports: "text_model.encoder.layer.3"
  bool backward = false;
  bool again = false;          // computes results of a forward node once more
  bool bf16_products = false;  // its matrix products round their operands to bf16 (kernels/gemm_tile.h)
};

// The place of a tensor in an array that has one element for each tensor of its graph.

// tensor: not none.
constexpr std::size_t index_of(Tensor tensor) { return static_cast<std::size_t>(tensor.index); }

}  // namespace bascule
