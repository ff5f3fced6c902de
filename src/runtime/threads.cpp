// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/threads.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/clock.h"
#include "src/base/elementary.h"

namespace bascule {
namespace {

constexpr int kSpins = 4000;  // about 50 us: longer than most steps of a small model, shorter than a scheduling quantum

// Returns 0 or an errno.
int pin_to_core(pthread_t thread, int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  return pthread_setaffinity_np(thread, sizeof one, &one);
}

}  // namespace

// More threads than cores may run anywhere.
CoreGroups groups_of_threads(int count, bool pin) {
  const std::vector<int> cores = cores_of_process();
  if (!pin || count == 1 || static_cast<int>(cores.size()) < count) return groups_anywhere(count);
  return groups_of_cores(count, {cores.begin(), cores.end()}, read_cores(), read_caches());
}

std::vector<int> cores_of_process() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

int usable_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return CPU_COUNT(&allowed);
}

Threads::Threads(int count, bool pin, Heartbeat* heart, TapePosition* position)
    : Threads(groups_of_threads(count, pin), heart, position) {}

Threads::Threads(const CoreGroups& groups, Heartbeat* heart, TapePosition* position, int of_process)
    : count_(threads_of(groups)),
      spins_(std::max(count_, of_process) <= usable_cores() ? kSpins : 0),
      groups_(groups.sizes.size()),
      cores_(groups.cores),
      heart_(heart != nullptr ? heart : &unheard_),
      position_(position != nullptr ? position : &unread_) {
  use_default_float_environment();
  workers_.reserve(static_cast<std::size_t>(count_ - 1));
  int thread = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].first = thread;
    groups_[g].size = groups.sizes[g];
    thread += groups.sizes[g];
  }
  try {
    for (Group& group : groups_) {
      for (int t = std::max(group.first, 1); t < group.first + group.size; ++t) {
        workers_.emplace_back([this, t, &group] {
          use_default_float_environment();
          work(t, group);
        });
      }
    }
  } catch (const std::system_error&) {
    end_workers();
    throw;
  }
  if (!cores_.empty()) pin_all();
}

Threads::Threads(const SimulatedThreads& simulated)
    : count_(simulated.count),
      spins_(0),
      simulation_(std::make_unique<Simulation>(simulated)),
      heart_(&unheard_),
      position_(&unread_) {
  use_default_float_environment();
}

void Threads::pin_all() {
  if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) {
    pin_error_ = errno;
    return;
  }
  is_pinned_ = true;
  pin_error_ = pin_to_core(pthread_self(), cores_[0]);
  for (std::size_t t = 1; t < cores_.size() && pin_error_ == 0; ++t)
    pin_error_ = pin_to_core(workers_[t - 1].native_handle(), cores_[t]);
}

void Threads::end_workers() noexcept {
  stop_ = true;
  call_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(call_, FutexReach::kProcess);
  for (std::thread& worker : workers_) worker.join();
}

Threads::~Threads() {
  end_workers();
  if (is_pinned_) sched_setaffinity(0, sizeof allowed_, &allowed_);
}

void Threads::wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  for (int i = 0; i < spins_; ++i) {
    if (word.load(std::memory_order_acquire) != value) return;
    spin_pause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == value) futex_wait(word, value, FutexReach::kProcess);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Threads::work(int thread, Group& group) noexcept {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while(call_, seen);
    ++seen;
    if (stop_) return;
    walk(thread, group);
  }
}

// Whether this was the last of `count` to arrive.
bool Threads::arrive_at(std::atomic<std::int32_t>& arrived, int count) noexcept {
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < count) return false;
  arrived.store(0, std::memory_order_relaxed);
  return true;
}

void Threads::open(std::atomic<std::uint32_t>& phase) noexcept {
  phase.store(phase.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(phase, FutexReach::kProcess);
}

// The last of a group to arrive goes on to the groups' barrier, of which the last opens the next step.
void Threads::arrive(Group& group) noexcept {
  const std::uint32_t phase = group.phase.load(std::memory_order_relaxed);
  if (!arrive_at(group.arrived, group.size)) {
    wait_while(group.phase, phase);
    return;
  }
  // The next step's: nobody has dealt from it since all arrived at the end of the last step, nor will before all do
  // now.
  group.dealt[(phase + 1) % 2].store(0, std::memory_order_relaxed);
  if (groups_.size() > 1) {
    if (arrive_at(arrived_, static_cast<int>(groups_.size()))) {
      open(phase_);
    } else {
      wait_while(phase_, phase);
    }
  }
  open(group.phase);
}

// The own group's share first, then what the next groups have left of theirs.
void Threads::run_tasks_of(const Step& step, const Replay& replay, std::int64_t tasks, int thread,
                           const Group& own) noexcept {
  const std::size_t groups = groups_.size(), first = static_cast<std::size_t>(&own - groups_.data());
  const std::uint32_t parity = own.phase.load(std::memory_order_relaxed) % 2;
  for (std::size_t g = 0; g < groups; ++g) {
    Group& group = groups_[(first + g) % groups];
    const std::int64_t begin = tasks * group.first / count_, end = tasks * (group.first + group.size) / count_;
    std::atomic<std::int64_t>& dealt = group.dealt[parity];
    if (g > 0 && begin + dealt.load(std::memory_order_relaxed) >= end) continue;  // leaves the line to the group
    for (;;) {
      const std::int64_t task = begin + dealt.fetch_add(1, std::memory_order_relaxed);
      if (task >= end) break;
      step.run(step.arguments, replay, task, thread);
    }
  }
}

void Threads::walk(int thread, Group& group) noexcept {
  const bool measure = thread == 0 && times_.steps != nullptr;
  // Own copies: when the last step is over, the next replay may begin while this thread is still on its way out.
  const Span<const Step> steps = steps_;
  const Replay& replay = *replay_;
  std::int64_t began = measure ? monotonic_ns() : 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    run_tasks_of(step, replay, step.tasks(step.arguments, replay), thread, group);
    arrive(group);
    if (thread == 0) {
      position_->reach(done_ + static_cast<std::int64_t>(i) + 1);
      heart_->beat();
    }
    if (measure) {
      const std::int64_t ended = monotonic_ns();
      times_.steps[i].nanoseconds += static_cast<std::uint64_t>(ended - began);
      began = ended;
    }
  }
}

void Threads::replay(Span<const Step> steps, const Replay& replay, StepTimes times, std::int64_t done) noexcept {
  if (steps.empty()) return;
  steps_ = steps;
  replay_ = &replay;
  times_ = times;
  done_ = done;
  if (simulation_ != nullptr) return simulation_->replay(steps, replay, times);
  if (count_ > 1) {
    call_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(call_, FutexReach::kProcess);
  }
  walk(0, groups_.front());
}

}  // namespace bascule
