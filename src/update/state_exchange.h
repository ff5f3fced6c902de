// SPDX-License-Identifier: Apache-2.0
// Saving an optimizer's states that the nodes share out: rank 0 reads any part of them, of other nodes' by asking their
// first ranks, which answer until it has done. After the seal, by the first ranks of all nodes together.
//
//   rank 0: exchange.read(...) ...; exchange.finish();        others: exchange.serve();
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/distributed/group.h"
#include "src/update/optimizer_states.h"

namespace bascule {

class StateExchange {
 public:
  // A state's values of a tensor: from value `first` of the state on.
  struct Part {
    StateExchange* exchange = nullptr;
    std::size_t state = 0;
    std::int64_t first = 0;
  };

  // Before the seal. states: outlive this.
  StateExchange(Group& group, const OptimizerStates& states) : group_(group), states_(states) {}

  // Values [first, first + count) of all those of a state. kRankFailed where another node is gone.
  Status read(std::size_t state, std::int64_t first, std::int64_t count, float* destination) noexcept;
  // As a TensorReader: part is a Part.
  static Status read_part(void* part, float* destination, std::int64_t first, std::int64_t count) noexcept;
  Status finish() noexcept;
  Status serve() noexcept;

 private:
  struct Request {
    std::int64_t state = 0, place = 0, count = 0;  // of the node's range; count 0: no more
  };

  Group& group_;
  const OptimizerStates& states_;
};

}  // namespace bascule
