// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/simulation.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/base/clock.h"
#include "src/runtime/threads.h"

namespace bascule::test {
namespace {

void spin(std::int64_t nanoseconds) {
  for (const std::int64_t began = monotonic_ns(); monotonic_ns() - began < nanoseconds;) continue;
}

// Three steps of 1, 4 and 5 tasks of 2 ms for two threads take 2, 4 and 6 ms: tasks are dealt in order, to whoever is
// free.
TEST(SimulatedThreads, TakeAsLongAsTheLastOfThemAndSayWhy) {
  constexpr std::int64_t kTaskNs = 2'000'000;
  constexpr std::int64_t kTasks[] = {1, 4, 5};
  const auto run = [](const void*, const Replay&, std::int64_t, int thread) {
    EXPECT_EQ(thread, 0);
    spin(kTaskNs);
  };
  const auto count = [](const void* arguments, const Replay&) { return *static_cast<const std::int64_t*>(arguments); };
  std::vector<Step> steps;
  for (const std::int64_t& tasks : kTasks) steps.push_back({run, count, &tasks, 0});
  Threads threads(SimulatedThreads{2});
  EXPECT_EQ(threads.count(), 2);
  StepTime times[3];
  const std::int64_t began = monotonic_ns();
  threads.replay(Span<const Step>(steps.data(), steps.size()), Replay{}, {times});
  const double took = 1e-9 * static_cast<double>(monotonic_ns() - began);
  // A task may be held up, but never ends early: what follows is exact but for the time that one took too long.
  double simulated = 0.0;
  const std::uint64_t barrier = SimulatedThreads{2}.barrier_ns();
  for (int s = 0; s < 3; ++s) {
    const std::uint64_t tasks = static_cast<std::uint64_t>(kTasks[s]), rounds = (tasks + 1) / 2;
    const std::uint64_t late = times[s].work_ns - tasks * kTaskNs;
    EXPECT_GE(times[s].nanoseconds, rounds * kTaskNs + barrier);
    EXPECT_LE(times[s].nanoseconds, rounds * kTaskNs + barrier + late + tasks * SimulatedThreads::kDealNs);
    EXPECT_EQ(times[s].barrier_ns, barrier);
    simulated += 1e-9 * static_cast<double>(times[s].nanoseconds);
  }
  EXPECT_EQ(times[0].few_tasks_ns, times[0].nanoseconds - barrier - times[0].work_ns / 2);
  EXPECT_EQ(times[1].few_tasks_ns, 0u);
  EXPECT_EQ(times[2].few_tasks_ns, 0u);
  EXPECT_NEAR(threads.simulated_gain(), took - simulated, 1e-3);
}

TEST(SimulatedThreads, WaitForNobodyWhereThereIsOne) {
  EXPECT_EQ(SimulatedThreads{1}.barrier_ns(), 0u);
  EXPECT_EQ(SimulatedThreads{16}.barrier_ns(), 2000u);
  EXPECT_EQ(SimulatedThreads{64}.barrier_ns(), 5000u);
}

// A task is held up in one replay of three: a simulated step of undisturbed threads knows what it takes without that,
// as long as all replays have as many tasks; one of this machine's waits for it, as a real one does.
TEST(SimulatedThreads, TakeTheLeastTimeOfReplaysOfAsManyTasksWhereTheyAreUndisturbed) {
  constexpr std::int64_t kTaskNs = 200'000, kHeldUpNs = 20'000'000;
  const auto run = [](const void*, const Replay& replay, std::int64_t task, int) {
    spin(replay.add_to_gradients && task == 1 ? kHeldUpNs : kTaskNs);
  };
  const auto count = [](const void*, const Replay& replay) { return replay.batch.counts.samples(); };
  const Step step{run, count, nullptr, 0};
  const auto step_ns = [&](bool are_undisturbed, bool are_equally_many) {
    Threads threads(SimulatedThreads{4, are_undisturbed});
    StepTime time;
    for (int round = 0; round < 3; ++round) {
      Replay replay;
      replay.batch.counts[kSamples] = are_equally_many ? 4 : 2 + round;
      replay.add_to_gradients = round == 2;
      threads.replay({&step, 1}, replay, {&time});
    }
    EXPECT_EQ(time.barrier_ns, 3 * SimulatedThreads{4}.barrier_ns());
    EXPECT_GE(time.nanoseconds, 3u * kTaskNs);
    return static_cast<std::int64_t>(time.nanoseconds);
  };
  EXPECT_LT(step_ns(true, true), kHeldUpNs);
  EXPECT_GE(step_ns(true, false), kHeldUpNs);
  EXPECT_GE(step_ns(false, true), kHeldUpNs);
}

}  // namespace
}  // namespace bascule::test
