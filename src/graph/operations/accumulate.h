// SPDX-License-Identifier: Apache-2.0
// What backward operations share: when a write adds, and how slots are listed among an operation's uses.
#pragma once

#include <initializer_list>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/replay.h"

namespace bascule {

inline bool adds(Accumulate rule, const Replay& replay) {
  return rule == Accumulate::kYes || (rule == Accumulate::kLaterMicroBatches && replay.add_to_gradients);
}

inline void add_slots(std::vector<TensorUse>* uses, std::initializer_list<Backward::Slot> slots) {
  for (const Backward::Slot& slot : slots) {
    if (slot) uses->push_back({slot.gradient, slot.accumulate == Accumulate::kNo ? Access::kWrite : Access::kUpdate});
  }
}

}  // namespace bascule
