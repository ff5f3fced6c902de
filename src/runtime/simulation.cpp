// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/simulation.h"

#include <algorithm>
#include <limits>

#include "src/base/clock.h"
#include "src/runtime/core_groups.h"

namespace bascule {
namespace {

constexpr std::size_t kMostSteps = 1 << 15;  // that are known; a power of two
constexpr std::size_t kMostTasks = 1 << 22;  // of all known steps

}  // namespace

// 2 us for 16 threads and 5 us for 64: what one shared counter costs on servers. A thread alone waits for nobody.
std::uint64_t SimulatedThreads::barrier_ns() const {
  return count == 1 ? 0 : 1000 + 1000 * static_cast<std::uint64_t>(count) / 16;
}

Simulation::Simulation(const SimulatedThreads& threads)
    : threads_(threads),
      groups_(static_cast<std::int64_t>(groups_anywhere(threads.count).sizes.size())),
      free_at_(static_cast<std::size_t>(threads.count)),
      known_(threads.are_undisturbed ? kMostSteps : 0),
      least_(threads.are_undisturbed ? kMostTasks : 0, std::numeric_limits<std::uint32_t>::max()) {}

// Null for one that once had more or fewer tasks, and where there is no room.
Simulation::Known* Simulation::known(const StepTime* step, std::int64_t tasks) noexcept {
  if (step == nullptr) return nullptr;
  std::size_t at = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(step) / sizeof(StepTime)) % kMostSteps;
  for (std::size_t probes = 0; probes < kMostSteps; ++probes, at = (at + 1) % kMostSteps) {
    Known& known = known_[at];
    if (known.step != nullptr && known.step != step) continue;
    if (known.step == nullptr) {
      if (used_ + static_cast<std::size_t>(tasks) > kMostTasks) return nullptr;
      known = {step, tasks, 0, least_.data() + used_};
      used_ += static_cast<std::size_t>(tasks);
    }
    known.is_steady = known.is_steady && known.tasks == tasks;
    return known.is_steady ? &known : nullptr;
  }
  return nullptr;
}

StepTime Simulation::simulate(const Step& step, const Replay& replay, std::int64_t tasks,
                              std::uint32_t* least) noexcept {
  const std::uint64_t barrier = threads_.barrier_ns(), count = static_cast<std::uint64_t>(threads_.count);
  std::fill(free_at_.begin(), free_at_.end(), 0);
  std::uint64_t work = 0, dealt = 0;
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t started = monotonic_ns();
    step.run(step.arguments, replay, task, 0);
    std::uint64_t taken = static_cast<std::uint64_t>(monotonic_ns() - started);
    if (least != nullptr) {
      std::uint32_t& least_taken = least[task];
      taken = std::min(taken, std::uint64_t{least_taken});
      least_taken = static_cast<std::uint32_t>(taken);
    }
    std::uint64_t& first_free = *std::min_element(free_at_.begin(), free_at_.end());
    if (task % groups_ == 0) dealt += SimulatedThreads::kDealNs;
    first_free = std::max(first_free, dealt) + taken;
    work += taken;
  }
  const std::uint64_t ended = *std::max_element(free_at_.begin(), free_at_.end());
  return {ended + barrier, work, barrier, tasks < threads_.count ? ended - work / count : 0};
}

void Simulation::replay(Span<const Step> steps, const Replay& replay, StepTimes times) noexcept {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int64_t began = monotonic_ns(), tasks = steps[i].tasks(steps[i].arguments, replay);
    StepTime* const sums = times.steps == nullptr ? nullptr : times.steps + i;
    Known* const known = threads_.are_undisturbed ? this->known(sums, tasks) : nullptr;
    const StepTime time = simulate(steps[i], replay, tasks, known == nullptr ? nullptr : known->least);
    gained_ns_ += (monotonic_ns() - began) - static_cast<std::int64_t>(time.nanoseconds);
    if (known != nullptr) {
      const std::uint64_t replays = static_cast<std::uint64_t>(++known->replays);
      *sums = {replays * time.nanoseconds, replays * time.work_ns, replays * time.barrier_ns,
               replays * time.few_tasks_ns};
    } else if (sums != nullptr) {
      *sums = {sums->nanoseconds + time.nanoseconds, sums->work_ns + time.work_ns, sums->barrier_ns + time.barrier_ns,
               sums->few_tasks_ns + time.few_tasks_ns};
    }
  }
}

}  // namespace bascule
