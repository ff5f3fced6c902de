// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/share_work.h"

namespace bascule {
namespace {

struct Shared {
  std::int64_t count;
  const std::function<void(std::int64_t task, int thread)>& run;

  static std::int64_t tasks(const void* shared, const Replay&) { return static_cast<const Shared*>(shared)->count; }
  static void run_task(const void* shared, const Replay&, std::int64_t task, int thread) {
    static_cast<const Shared*>(shared)->run(task, thread);
  }
};

}  // namespace

void share_work(Threads& threads, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run) {
  const Shared shared{tasks, run};
  const Step step{Shared::run_task, Shared::tasks, &shared, 0};
  threads.replay(Span<const Step>(&step, 1), Replay{}, {});
}

}  // namespace bascule
