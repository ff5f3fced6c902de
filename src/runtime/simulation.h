// SPDX-License-Identifier: Apache-2.0
// Threads that there are no cores for: how long the steps of a tape would take them.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/graph/launch.h"

namespace bascule {

// Of one step, summed over replays; written by thread 0.
struct StepTime {
  std::uint64_t nanoseconds = 0;
  // Of simulated threads: in tasks, all together; the barrier; and idle for want of tasks, each thread's share.
  std::uint64_t work_ns = 0, barrier_ns = 0, few_tasks_ns = 0;
};
struct StepTimes {
  StepTime* steps = nullptr;  // null: not measured
};

// One thread runs all tasks one after another and measures each of them; the time of a step is that of so many threads
// to whom the tasks are dealt in order, the next one to whoever is free first. No thread slows another down.
struct SimulatedThreads {
  int count = 0;  // 0: none
  // true: on a machine that runs nothing else; false: on this machine, with the other programs that run on it.
  bool are_undisturbed = true;
  // Assumed: until all threads have noticed the end of a step, and between two tasks that a group (core_groups.h)
  // deals.
  std::uint64_t barrier_ns() const;
  static constexpr std::uint64_t kDealNs = 33;  // 30 million a second
};

// A task takes as long as it does now: other programs hold up real threads as well, and the others wait for them. Of 64
// threads that are undisturbed, however, one nearly always has a task that another program held up here. So there a
// task takes the least that it took in any replay, as long as all have as many tasks, and the sums of a step are those
// of as many replays as its last one. Nothing allocates after the constructor.
class Simulation {
 public:
  explicit Simulation(const SimulatedThreads& threads);

  void replay(Span<const Step> steps, const Replay& replay, StepTimes times) noexcept;
  // How much longer all replays so far took than simulated ones would have.
  std::int64_t gained_ns() const noexcept { return gained_ns_; }

 private:
  // A step that was replayed, by the place of its sums.
  struct Known {
    const StepTime* step = nullptr;
    std::int64_t tasks = 0;          // of its first replay
    std::int64_t replays = 0;        // as long as it is steady
    std::uint32_t* least = nullptr;  // by task, nanoseconds
    bool is_steady = true;           // all replays had as many tasks as the first
  };
  Known* known(const StepTime* step, std::int64_t tasks) noexcept;
  // least: null: a task takes as long as it does now.
  StepTime simulate(const Step& step, const Replay& replay, std::int64_t tasks, std::uint32_t* least) noexcept;

  SimulatedThreads threads_;
  std::int64_t groups_;                 // that deal tasks
  std::vector<std::uint64_t> free_at_;  // when each thread has done its tasks of this step
  std::vector<Known> known_;            // by a hash of the place
  std::vector<std::uint32_t> least_;    // of all known steps
  std::size_t used_ = 0;                // of least_
  std::int64_t gained_ns_ = 0;
};

}  // namespace bascule
