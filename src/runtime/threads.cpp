// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/clock.h"
#include "src/base/elementary.h"
#include "src/base/futex.h"

namespace bascule {
namespace {

constexpr int kSpins = 4000;  // about 50 us: longer than most steps of a small model, shorter than a scheduling quantum

// The index-th of the allowed cores. Returns 0 or an errno.
int pin_to_core(pthread_t thread, const cpu_set_t& allowed, int index) {
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return pthread_setaffinity_np(thread, sizeof one, &one);
  }
  return 0;  // more threads than cores: the others may run anywhere
}

}  // namespace

int usable_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return CPU_COUNT(&allowed);
}

Threads::Threads(int count, bool pin, Heartbeat* heart, TapePosition* position)
    : count_(count),
      spins_(count <= usable_cores() ? kSpins : 0),
      heart_(heart != nullptr ? heart : &unheard_),
      position_(position != nullptr ? position : &unread_) {
  use_default_float_environment();
  workers_.reserve(static_cast<std::size_t>(count - 1));
  try {
    for (int t = 1; t < count; ++t) {
      workers_.emplace_back([this, t] {
        use_default_float_environment();
        work(t);
      });
    }
  } catch (const std::system_error&) {
    end_workers();
    throw;
  }
  if (pin && count > 1) pin_all();
}

// 2 us for 16 threads and 5 us for 64: what one shared counter costs on servers.
std::uint64_t SimulatedThreads::barrier_ns() const { return 1000 + 1000 * static_cast<std::uint64_t>(count) / 16; }

Threads::Threads(const SimulatedThreads& simulated)
    : count_(simulated.count),
      spins_(0),
      simulated_(simulated),
      free_at_(static_cast<std::size_t>(simulated.count)),
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
  pin_error_ = pin_to_core(pthread_self(), allowed_, 0);
  for (int t = 1; t < count_ && pin_error_ == 0; ++t)
    pin_error_ = pin_to_core(workers_[static_cast<std::size_t>(t - 1)].native_handle(), allowed_, t);
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

void Threads::work(int thread) noexcept {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while(call_, seen);
    ++seen;
    if (stop_) return;
    walk(thread);
  }
}

// The last to arrive opens the next step.
void Threads::arrive() noexcept {
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < count_) {
    wait_while(phase_, phase);
    return;
  }
  arrived_.store(0, std::memory_order_relaxed);
  next_task_.store(0, std::memory_order_relaxed);
  phase_.store(phase + 1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(phase_, FutexReach::kProcess);
}

void Threads::walk(int thread) noexcept {
  const bool measure = thread == 0 && times_.steps != nullptr;
  // Own copies: when the last step is over, the next replay may begin while this thread is still on its way out.
  const Span<const Step> steps = steps_;
  const Replay& replay = *replay_;
  std::int64_t began = measure ? monotonic_ns() : 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const std::int64_t tasks = step.tasks(step.arguments, replay);
    for (;;) {
      const std::int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) break;
      step.run(step.arguments, replay, task, thread);
    }
    arrive();
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

void Threads::simulate() noexcept {
  const std::uint64_t barrier = simulated_.barrier_ns(), count = static_cast<std::uint64_t>(count_);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const std::int64_t began = monotonic_ns(), tasks = step.tasks(step.arguments, *replay_);
    std::fill(free_at_.begin(), free_at_.end(), 0);
    std::uint64_t work = 0, dealt = 0;
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t started = monotonic_ns();
      step.run(step.arguments, *replay_, task, 0);
      const std::uint64_t taken = static_cast<std::uint64_t>(monotonic_ns() - started);
      std::uint64_t& first_free = *std::min_element(free_at_.begin(), free_at_.end());
      dealt += SimulatedThreads::kDealNs;
      first_free = std::max(first_free, dealt) + taken;
      work += taken;
    }
    const std::uint64_t ended = *std::max_element(free_at_.begin(), free_at_.end()) + barrier;
    gained_ns_ += (monotonic_ns() - began) - static_cast<std::int64_t>(ended);
    if (times_.steps == nullptr) continue;
    StepTime& time = times_.steps[i];
    time.nanoseconds += ended;
    time.work_ns += work;
    time.barrier_ns += barrier;
    if (tasks < count_) time.few_tasks_ns += ended - barrier - work / count;
  }
}

void Threads::replay(Span<const Step> steps, const Replay& replay, StepTimes times, std::int64_t done) noexcept {
  if (steps.empty()) return;
  steps_ = steps;
  replay_ = &replay;
  times_ = times;
  done_ = done;
  if (simulated_.count > 0) return simulate();
  if (count_ > 1) {
    call_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(call_, FutexReach::kProcess);
  }
  walk(0);
}

}  // namespace bascule
