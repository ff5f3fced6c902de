// SPDX-License-Identifier: Apache-2.0
// The first part of the seal: the memory of the plan, this rank's own and that which the ranks of a node share. It is
// mapped, then touched by all threads, then locked:
//
//   SealedMemory memory(plan, pages, group);    // addresses for the loader and the tapes
//   memory.touch(&work, threads, group);        // once there are threads; weights are added to the same work
//   work.run(threads);
//   memory.lock();                              // with machine.lock_memory
//
// Before the seal; throws Error kMemory where the system refuses, kRank where another rank failed.
#pragma once

#include <string>

#include "src/distributed/group.h"
#include "src/distributed/shared_memory.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/arena.h"
#include "src/runtime/start_work.h"
#include "src/runtime/threads.h"

namespace bascule {

class SealedMemory {
 public:
  // By all ranks of a node together. pages: as asked for.
  SealedMemory(const MemoryPlan& plan, HugePages pages, Group& group);

  const Arena& arena() const { return arena_; }

  // Adds the touching to `work`, all of it, or where ranks share memory, the end: each first touches its part, waits
  // for the others, and then maps what they have touched.
  void touch(StartWork* work, Threads& threads, Group& group) const;
  // Keeps all of it from being swapped out.
  void lock() const;
  // That there are no large pages is no error, but the user should know why it is slower. Once all is touched.
  void say_small_pages(void (*say)(const std::string& line)) const;

 private:
  HugePages pages_;
  SharedMemory shared_;
  Arena arena_;
};

}  // namespace bascule
