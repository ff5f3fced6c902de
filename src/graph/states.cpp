// SPDX-License-Identifier: Apache-2.0
#include "src/graph/states.h"

#include <utility>

#include "src/base/align.h"
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

}  // namespace bascule
