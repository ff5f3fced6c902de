// SPDX-License-Identifier: Apache-2.0
// What an operation kind says of itself: which tensors it touches, how its gradient is made of other operations, what
// it costs, what scratch it needs, and the steps that it becomes on a tape. One kind is one file under operations/.
#pragma once

#include <cstdint>
#include <vector>

#include "src/graph/extent.h"

namespace bascule {

class Backward;
class Launch;

// A tensor of a graph, by number. Negative: none.
struct Tensor {
  std::int32_t index = -1;
  constexpr explicit operator bool() const { return index >= 0; }
  constexpr bool operator==(Tensor other) const { return index == other.index; }
};

enum class Access { kRead, kWrite, kUpdate };  // kUpdate: reads what is there and writes it again

struct TensorUse {
  Tensor tensor;
  Access access;
};

struct Cost {
  double flops = 0.0;  // multiply and add count as two
  double bytes = 0.0;  // read and written once each
};

class Operation {
 public:
  virtual ~Operation() = default;
  virtual const char* kind() const = 0;
  // In a fixed order; a tensor comes once. Scratch tensors are among the written ones.
  virtual std::vector<TensorUse> uses() const = 0;
  // Emits the operations that turn gradients of what it writes into gradients of what it reads. Backward operations
  // have none.
  virtual void derive(Backward& backward) const;
  virtual Cost cost(const BatchCounts& counts) const = 0;
  // Scratch that one thread needs while it runs a task, in floats.
  virtual std::int64_t thread_scratch_floats() const { return 0; }
  virtual void launch(Launch& launch) const = 0;

 protected:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
};

}  // namespace bascule
