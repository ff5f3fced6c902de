// SPDX-License-Identifier: Apache-2.0
// The compute threads.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/futex.h"
#include "src/base/span.h"
#include "src/base/tape_position.h"
#include "src/graph/launch.h"
#include "src/runtime/core_groups.h"
#include "src/runtime/simulation.h"

namespace bascule {

// The compute threads: the one place that splits work. A replay walks a list of steps; the tasks of a step go to
// whichever thread is free, and all wait for the last before the next step. The result of a task never depends on the
// thread that runs it.
//
// On many cores one counter of tasks, or of those that have arrived, would move from core to core at each task. So each
// group of threads (core_groups.h) has counters of its own: it deals a share of the tasks, then helps the next groups
// with theirs, and the last of it to arrive goes on to the barrier of the groups.
//
// The calling thread is thread 0. Waiting threads spin a little, then sleep on a futex. Nothing allocates after the
// constructor.

class Threads : NonCopyable {
 public:
  // count >= 1. pin: each thread stays on a core that this process may use, in the order of core_groups.h, where there
  // are enough; the calling thread until the destructor, which it must call as well. heart, position: written after
  // every step, outlive this; null: nobody reads them. Throws std::system_error where the system refuses a thread; none
  // stays behind.
  Threads(int count, bool pin, Heartbeat* heart = nullptr, TapePosition* position = nullptr);
  // In these groups. of_process: compute threads of the process, where there are more than these; 0: there are not.
  Threads(const CoreGroups& groups, Heartbeat* heart, TapePosition* position, int of_process = 0);
  // count() is theirs. The calling thread runs all tasks; no thread is started.
  explicit Threads(const SimulatedThreads& simulated);
  ~Threads();

  int count() const { return count_; }
  // Why the system refused to pin a thread (an errno); 0: it did not, or was not asked. Threads work anyway.
  int pin_error() const { return pin_error_; }
  // By thread; empty: they may run anywhere.
  const std::vector<int>& cores() const { return cores_; }
  // done: steps of the same tape that were replayed before; the position counts on from there.
  void replay(Span<const Step> steps, const Replay& replay, StepTimes times, std::int64_t done = 0) noexcept;

  // How much longer all replays so far took than simulated ones would have, in seconds; 0: nothing is simulated.
  double simulated_gain() const noexcept {
    return simulation_ == nullptr ? 0.0 : 1e-9 * static_cast<double>(simulation_->gained_ns());
  }

 private:
  struct alignas(64) Group {
    int first = 0, size = 0;  // of its threads
    // Of the tasks of its share how many were dealt, in steps of even and of odd numbers.
    alignas(64) std::atomic<std::int64_t> dealt[2] = {{0}, {0}};
    alignas(64) std::atomic<std::int32_t> arrived{0};
    alignas(64) std::atomic<std::uint32_t> phase{0};  // raised once a step: all threads have arrived
  };

  void pin_all();
  void end_workers() noexcept;
  void work(int thread, Group& group) noexcept;
  void walk(int thread, Group& group) noexcept;
  void run_tasks_of(const Step& step, const Replay& replay, std::int64_t tasks, int thread, const Group& own) noexcept;
  void arrive(Group& group) noexcept;
  bool arrive_at(std::atomic<std::int32_t>& arrived, int count) noexcept;
  void open(std::atomic<std::uint32_t>& phase) noexcept;
  void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept;

  int count_;
  int spins_;  // none where threads outnumber cores: a spinning one would keep a working one from its core
  std::vector<std::thread> workers_;
  std::vector<Group> groups_;
  std::unique_ptr<Simulation> simulation_;  // null: threads are real
  cpu_set_t allowed_;                       // the calling thread's cores before it was pinned
  std::vector<int> cores_;
  bool is_pinned_ = false;
  int pin_error_ = 0;
  Span<const Step> steps_;
  const Replay* replay_ = nullptr;
  StepTimes times_;
  std::int64_t done_ = 0;
  Heartbeat unheard_;
  Heartbeat* heart_;
  TapePosition unread_;
  TapePosition* position_;
  bool stop_ = false;
  alignas(64) std::atomic<std::uint32_t> call_{0};   // raised once a replay: workers begin
  alignas(64) std::atomic<std::uint32_t> phase_{0};  // raised once a step: all groups have arrived
  alignas(64) std::atomic<std::int32_t> arrived_{0};
  alignas(64) std::atomic<std::int32_t> sleepers_{0};
};

// The cores that this process may run on (its affinity mask); {} where the system does not say.
std::vector<int> cores_of_process();
// The number of these cores, at least one.
int usable_cores();
// Of so many threads. pin: on cores that this process may use, where there are enough.
CoreGroups groups_of_threads(int count, bool pin);

// One step of the compute threads that is no tape's: a call for each of `count` tasks, done by whichever threads are
// free. Allocates nothing, so it may be used after the seal.
//
//   run_tasks(threads, blocks, [&](std::int64_t block) { ... });

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
