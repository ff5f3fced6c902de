// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <cerrno>
#include <cstddef>
#endif

#include "src/base/clock.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

// Counts the calls of each task of each step, and looks at what is done when a task begins.
struct Record {
  std::vector<std::int64_t> tasks;                               // by step
  std::unique_ptr<std::unique_ptr<std::atomic<int>[]>[]> calls;  // by step and task
  std::unique_ptr<std::atomic<std::int64_t>[]> done;             // by step
  std::atomic<int> early{0};                                     // tasks that began before the step before was over
  std::atomic<int> strange{0};                                   // thread numbers out of range
  int threads = 1;

  explicit Record(std::vector<std::int64_t> counts) : tasks(std::move(counts)) {
    calls = std::make_unique<std::unique_ptr<std::atomic<int>[]>[]>(tasks.size());
    done = std::make_unique<std::atomic<std::int64_t>[]>(tasks.size());
    for (std::size_t s = 0; s < tasks.size(); ++s) {
      calls[s] = std::make_unique<std::atomic<int>[]>(static_cast<std::size_t>(tasks[s]));
    }
  }
};

struct StepArguments {
  Record* record;
  std::size_t step;
};

std::int64_t count_tasks(const void* arguments, const Replay&) {
  const auto& a = *static_cast<const StepArguments*>(arguments);
  return a.record->tasks[a.step];
}

void run_task(const void* arguments, const Replay& replay, std::int64_t task, int thread) {
  const auto& a = *static_cast<const StepArguments*>(arguments);
  Record& record = *a.record;
  const std::int64_t rounds = replay.batch.counts.samples();  // how many replays there were, with this one
  for (std::size_t s = a.step == 0 ? 0 : a.step - 1; s < a.step; ++s) {
    if (record.done[s].load(std::memory_order_relaxed) != rounds * record.tasks[s]) ++record.early;
  }
  if (thread < 0 || thread >= record.threads) ++record.strange;
  record.calls[a.step][static_cast<std::size_t>(task)].fetch_add(1, std::memory_order_relaxed);
  record.done[a.step].fetch_add(1, std::memory_order_relaxed);
}

struct StepList {
  std::vector<StepArguments> arguments;
  std::vector<Step> steps;
};

StepList steps_of(Record& record) {
  StepList list;
  for (std::size_t s = 0; s < record.tasks.size(); ++s) list.arguments.push_back({&record, s});
  for (const StepArguments& a : list.arguments) list.steps.push_back({run_task, count_tasks, &a, 0});
  return list;
}

void expect_each_task_once_a_round(const Record& record, int rounds) {
  for (std::size_t s = 0; s < record.tasks.size(); ++s) {
    for (std::int64_t t = 0; t < record.tasks[s]; ++t) {
      ASSERT_EQ(record.calls[s][static_cast<std::size_t>(t)].load(), rounds) << "step " << s << " task " << t;
    }
  }
  EXPECT_EQ(record.early.load(), 0);
  EXPECT_EQ(record.strange.load(), 0);
}

// One step of `count` tasks, of which each knows its thread.
template <typename Work>
void run_tasks_by(Threads& threads, std::int64_t count, const Work& work) {
  struct Call {
    std::int64_t count;
    const Work& work;
  };
  const Call call{count, work};
  const Step step{[](const void* arguments, const Replay&, std::int64_t task, int thread) {
                    static_cast<const Call*>(arguments)->work(task, thread);
                  },
                  [](const void* arguments, const Replay&) { return static_cast<const Call*>(arguments)->count; },
                  &call, 0};
  threads.replay({&step, 1}, Replay{}, {});
}

class ThreadCounts : public ::testing::TestWithParam<int> {};

TEST_P(ThreadCounts, RunEveryTaskOfThousandsOfTinyStepsOnceAndInOrder) {
  Seeded random(41);
  std::vector<std::int64_t> counts;
  for (int s = 0; s < 2000; ++s) counts.push_back(random.chance(0.1) ? 0 : random.integer(1, 7));
  Record record(counts);
  record.threads = GetParam();
  const StepList list = steps_of(record);
  Threads threads(GetParam(), false);
  EXPECT_EQ(threads.count(), GetParam());
  for (int round = 1; round <= 2; ++round) {
    Replay replay;
    replay.batch.counts[kSamples] = round;
    threads.replay(list.steps, replay, {});
  }
  expect_each_task_once_a_round(record, 2);
}

// The end of one replay and the beginning of the next are where a late thread could meet an early one.
TEST_P(ThreadCounts, ReplayShortListsAgainAndAgain) {
  Record record({3, 1, 8});
  record.threads = GetParam();
  const StepList list = steps_of(record);
  Threads threads(GetParam(), true);
  for (int round = 1; round <= 1000; ++round) {
    Replay replay;
    replay.batch.counts[kSamples] = round;
    threads.replay(list.steps, replay, {});
  }
  expect_each_task_once_a_round(record, 1000);
}

// Groups deal their own share, and meet at a barrier of their own before that of the groups.
TEST(ThreadGroups, RunEveryTaskOnceAndInOrderWhateverTheirSizes) {
  const std::vector<std::vector<int>> all_sizes = {{1, 1}, {2, 2}, {1, 3}, {3, 1, 2}, {1, 1, 1, 1, 1}};
  for (const std::vector<int>& sizes : all_sizes) {
    Record record({3, 0, 1, 8, 40, 2});
    record.threads = std::accumulate(sizes.begin(), sizes.end(), 0);
    const StepList list = steps_of(record);
    Threads threads(CoreGroups{{}, sizes}, nullptr, nullptr);
    EXPECT_EQ(threads.count(), record.threads);
    for (int round = 1; round <= 300; ++round) {
      Replay replay;
      replay.batch.counts[kSamples] = round;
      threads.replay(list.steps, replay, {});
    }
    expect_each_task_once_a_round(record, 300);
  }
}

// Of two groups of one thread each, the first one waits in its first task until the other has done all others.
TEST(ThreadGroups, HelpTheNextGroupWithItsShare) {
  constexpr std::int64_t kTasks = 8;
  std::atomic<std::int64_t> done{0}, by_first{0};
  const std::int64_t latest = monotonic_ns() + 5'000'000'000;  // a failure, not a test that never ends
  Threads threads(CoreGroups{{}, {1, 1}}, nullptr, nullptr);
  run_tasks_by(threads, kTasks, [&](std::int64_t, int thread) {
    by_first += thread == 0 ? 1 : 0;
    while ((thread == 0 ? done.load() < kTasks - 1 : by_first.load() == 0) && monotonic_ns() < latest)
      std::this_thread::yield();
    ++done;
  });
  EXPECT_EQ(done.load(), kTasks);
  EXPECT_EQ(by_first.load(), 1);
}

// A library that was linked with -ffast-math leaves the thread that loads it like this.
TEST_P(ThreadCounts, ComputeWithTheDefaultFloatEnvironment) {
  const auto tasks = [](const void*, const Replay&) -> std::int64_t { return 64; };
  const auto run = [](const void* arguments, const Replay&, std::int64_t, int) {
    auto& strange = *static_cast<std::atomic<int>*>(const_cast<void*>(arguments));
    const volatile float smallest = std::numeric_limits<float>::min(), one = 1.0f, tiny = 0x1p-30f;
    if (smallest / 2.0f == 0.0f || one + tiny != 1.0f) ++strange;
  };
  std::atomic<int> strange{0};
  const Step step{run, tasks, &strange, 0};
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush subnormal results to zero, take subnormal operands as zero
#endif
  std::fesetround(FE_UPWARD);
  Threads threads(GetParam(), false);
  for (int round = 0; round < 20; ++round) threads.replay(Span<const Step>(&step, 1), Replay{}, {});
  EXPECT_EQ(strange.load(), 0);
}

TEST_P(ThreadCounts, StartAndEndWithoutWork) {
  for (int i = 0; i < 50; ++i) {
    Threads threads(GetParam(), false);
    threads.replay({}, Replay{}, {});
  }
}

TEST_P(ThreadCounts, MeasureEachStep) {
  Record record({2, 0, 2});
  record.threads = GetParam();
  const StepList list = steps_of(record);
  std::vector<StepTime> times(3);
  Threads threads(GetParam(), false);
  for (int round = 1; round <= 2; ++round) {
    Replay replay;
    replay.batch.counts[kSamples] = round;
    threads.replay(list.steps, replay, {times.data()});
  }
  for (const StepTime& of_step : times) EXPECT_GT(of_step.nanoseconds, 0u);
}

INSTANTIATE_TEST_SUITE_P(OneToFour, ThreadCounts, ::testing::Values(1, 2, 3, 4));

TEST(UsableCores, AreAtLeastOne) { EXPECT_GE(usable_cores(), 1); }

TEST(Threads, TellAfterEachStepThatTheyLiveAndHowFarTheyAre) {
  Record record({3, 0, 5});
  StepList list = steps_of(record);
  Heartbeat heart;
  TapePosition position;
  position.begin_gradients(2);
  Threads threads(2, false, &heart, &position);
  record.threads = 2;
  Replay replay;
  threads.replay(Span<const Step>(list.steps.data(), 2), replay, {});
  EXPECT_EQ(heart.beats.load(), 2U);
  EXPECT_TRUE(position.has_reached(2, 2));
  EXPECT_FALSE(position.has_reached(2, 3));
  threads.replay(Span<const Step>(list.steps.data() + 2, 1), replay, {}, 2);
  EXPECT_EQ(heart.beats.load(), 3U);
  EXPECT_TRUE(position.has_reached(2, 3));
}

#if defined(__x86_64__)
// From now on the system refuses to place threads, as under systemd's SystemCallFilter=~@resources.
void refuse_to_pin() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sched_setaffinity, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {4, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(3);
}

TEST(Threads, SayWhenTheSystemRefusesToPinThem) {
  EXPECT_EQ(Threads(2, true).pin_error(), 0);
  EXPECT_EXIT(
      {
        refuse_to_pin();
        Threads threads(2, true);
        _exit(threads.pin_error() == EPERM ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace bascule::test
