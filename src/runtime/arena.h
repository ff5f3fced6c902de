// SPDX-License-Identifier: Apache-2.0
// The arena: one anonymous mapping, cut by the offsets of the memory plan, and touched whole before the first step by
// the threads of the run (start_work.h). Data that the ranks of a node share lies in separate memory, which the caller
// provides.
#pragma once

#include <cstddef>

#include "src/base/mapped_memory.h"
#include "src/base/span.h"
#include "src/plan/memory_plan.h"

namespace bascule {

class Arena : NonCopyable {
 public:
  // Mapped, and zero where it is read; no page is resident yet. Throws Error kMemory where the system refuses. shared:
  // plan.shared_bytes, outlives this; null where nothing is shared.
  Arena(const MemoryPlan& plan, HugePages huge_pages, std::byte* shared = nullptr);
  ~Arena();

  std::byte* at(const PlannedRange& category) const { return (category.shared ? shared_ : base_) + category.offset; }
  template <typename T>
  T* as(const PlannedRange& category) const {
    return static_cast<T*>(static_cast<void*>(at(category)));
  }

  Span<std::byte> memory() const { return {base_, bytes_}; }  // its own
  HugePages huge_pages() const { return huge_pages_; }        // kTransparent too where the reserved pool is too small
  void lock() const;  // mlock: never swapped. Throws Error kMemory where the system refuses

 private:
  std::byte *base_ = nullptr, *shared_ = nullptr;
  std::size_t bytes_ = 0;
  HugePages huge_pages_;
};

// Resident bytes of this process now, shared pages counted by share (Pss of /proc/self/smaps_rollup); 0 if the kernel
// does not say. Pages from the reserved pool are in no Pss: shared ones are divided by `sharers`. Reads into a buffer
// on the stack: may be called after the seal.
std::size_t resident_bytes(int sharers = 1) noexcept;

// How much of it is mapped in large pages here: anonymous memory, and memory shared with other processes.
struct HugePageBytes {
  std::size_t anonymous = 0, shared = 0;
};
HugePageBytes huge_page_bytes() noexcept;

}  // namespace bascule
