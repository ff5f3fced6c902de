// SPDX-License-Identifier: Apache-2.0
// The arena: one anonymous mapping, touched whole before the first step, cut by the offsets of the memory plan. Data
// that the ranks of a node share lies in separate memory, which the caller provides.
#pragma once

#include <cstddef>
#include <string>

#include "src/plan/memory_plan.h"

namespace bascule {

struct ArenaOptions {
  bool huge_pages = false;   // advise transparent huge pages
  bool lock_memory = false;  // mlock: never swapped
};

class Arena {
 public:
  // Throws Error kMemory where the system refuses. All bytes are zero and resident. shared: plan.shared_bytes, outlives
  // this; null where nothing is shared.
  Arena(const MemoryPlan& plan, const ArenaOptions& options, std::byte* shared = nullptr);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* at(const PlannedRange& category) const { return (category.shared ? shared_ : base_) + category.offset; }
  template <typename T>
  T* as(const PlannedRange& category) const {
    return static_cast<T*>(static_cast<void*>(at(category)));
  }

 private:
  std::byte* base_ = nullptr;
  std::byte* shared_ = nullptr;
  std::size_t bytes_ = 0;
};

// Resident bytes of this process now, shared pages counted by share (Pss of /proc/self/smaps_rollup); 0 if the kernel
// does not say. Reads into a buffer on the stack: may be called after the seal.
std::size_t resident_bytes() noexcept;

}  // namespace bascule
