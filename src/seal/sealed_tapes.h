// SPDX-License-Identifier: Apache-2.0
// The third part of the seal, in the memory of the first: the compute threads and the session's tapes, and for several
// ranks how gradients are summed over them. Before the seal; throws Error.
#pragma once

#include <string>

#include "kernels/isa.h"
#include "src/distributed/group.h"
#include "src/record/recorded_run.h"
#include "src/runtime/arena.h"
#include "src/runtime/threads.h"

namespace bascule {

class SealedTapes {
 public:
  // Seals run.session. run, arena and group outlive this, which is made and ends in the same thread.
  SealedTapes(RecordedRun& run, Isa isa, const Arena& arena, Group& group);

  Threads& threads() { return threads_; }
  void say_unpinned(void (*say)(const std::string& line)) const;

 private:
  Threads threads_;
};

}  // namespace bascule
