// SPDX-License-Identifier: Apache-2.0
// Memory that outlives a replay: caches of keys and values, tokens and scores of beams. One list for all graphs of a
// run, shared by name as parameters are: what one graph writes in a replay, it or another graph reads in a later one.
// Every state is zero before the first replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/dtype.h"

namespace bascule {

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

}  // namespace bascule
