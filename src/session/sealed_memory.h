// SPDX-License-Identifier: Apache-2.0
// The first part of the seal: the memory of the plan, this rank's own and that which the ranks of a node share. It is
// mapped, then touched by all threads, then locked:
//
//   SealedMemory memory(plan, pages, group);    // addresses for the loader and the tapes
//   memory.keep_near(own, group);               // once it is known what this rank works on
//   memory.touch(&work, threads, group);        // once there are threads; weights are added to the same work
//   work.run(threads);
//   memory.lock();                              // with machine.lock_memory
//
// Before the seal; throws Error kMemory where the system refuses, kRank where another rank failed.
#pragma once

#include <string>
#include <vector>

#include "src/base/memory_nodes.h"
#include "src/base/span.h"
#include "src/distributed/group.h"
#include "src/distributed/shared_memory.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/arena.h"
#include "src/runtime/start_work.h"
#include "src/runtime/threads.h"

namespace bascule {

class SealedMemory {
 public:
  // By all ranks of a node together, each in a thread that is not pinned yet. pages: as asked for.
  SealedMemory(const MemoryPlan& plan, HugePages pages, Group& group);

  const Arena& arena() const { return arena_; }

  // Of the memory that the ranks of a node share, which is spread over all memory nodes, these parts will lie at the
  // nodes of this rank's cores. By all ranks of a node together, before touch(). Nothing is shared: does nothing.
  void keep_near(const std::vector<Span<std::byte>>& own, Group& group) const;
  // Adds the touching to `work`, all of it, or where ranks share memory, the end: each first touches its part, waits
  // for the others, and then maps what they have touched.
  void touch(StartWork* work, Threads& threads, Group& group) const;
  // Keeps all of it from being swapped out.
  void lock() const;
  // That there are no large pages is no error, but the user should know why it is slower. Once all is touched.
  void say_small_pages(void (*say)(const std::string& line)) const;
  // Nor is it one that memory of this rank lies at other nodes than its cores.
  void say_far_pages(void (*say)(const std::string& line)) const;

 private:
  HugePages pages_;
  NodeSet near_;  // the memory nodes of this rank's cores
  SharedMemory shared_;
  Arena arena_;
};

}  // namespace bascule
