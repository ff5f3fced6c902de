// SPDX-License-Identifier: Apache-2.0
// One step of the compute threads that is no tape's: a call for each of `count` tasks, done by whichever threads are
// free. Allocates nothing, so it may be used after the seal.
//
//   run_tasks(threads, blocks, [&](std::int64_t block) { ... });
#pragma once

#include <cstdint>

#include "src/runtime/threads.h"

namespace bascule {

// work(task) neither allocates nor throws, and writes only what no other task touches. done: as Threads::replay has it.
template <typename Work>
void run_tasks(Threads& threads, std::int64_t count, const Work& work, std::int64_t done = 0) noexcept {
  struct Call {
    std::int64_t count;
    const Work& work;
  };
  const Call call{count, work};
  const Step step{[](const void* arguments, const Replay&, std::int64_t task, int) {
                    static_cast<const Call*>(arguments)->work(task);
                  },
                  [](const void* arguments, const Replay&) { return static_cast<const Call*>(arguments)->count; },
                  &call, 0};
  threads.replay(Span<const Step>(&step, 1), Replay{}, {}, done);
}

}  // namespace bascule
