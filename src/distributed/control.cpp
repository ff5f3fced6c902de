// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/control.h"

#include <sched.h>

#include <cstring>

namespace bascule {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
              "shared between processes");

// Where ranks share a core the one that others wait for gets it at once, without the way through the futex: 4 ranks on
// 2 cores meet in 3 us instead of 20.
constexpr int kYields = 16;
constexpr std::int64_t kLookNs = 50'000'000;  // how often a sleeper looks for a failure that nobody could wake it for

bool wait_for_others(ControlPage& page, std::uint32_t phase, int spins) noexcept {
  for (int i = 0; i < spins; ++i) {
    if (page.barrier_phase.load(std::memory_order_acquire) != phase) return true;
    spin_pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (page.barrier_phase.load(std::memory_order_acquire) != phase) return true;
    sched_yield();
  }
  page.sleepers.fetch_add(1);
  bool passed = true;
  while (page.barrier_phase.load() == phase) {
    if (page.has_failed()) {
      passed = false;
      break;
    }
    futex_wait(page.barrier_phase, phase, FutexReach::kSharedMemory, kLookNs);
  }
  page.sleepers.fetch_sub(1);
  return passed;
}

}  // namespace

const char* phase_words(RankPhase phase) noexcept {
  switch (phase) {
    case RankPhase::kStarting: return "while starting";
    case RankPhase::kSealing: return "while loading weights and sealing";
    case RankPhase::kWaitingForData: return "while waiting for data";
    case RankPhase::kComputing: return "during forward and backward";
    case RankPhase::kReducing: return "while summing gradients";
    case RankPhase::kUpdating: return "while updating weights";
    case RankPhase::kEvaluating: return "while evaluating";
    case RankPhase::kSaving: return "while saving a checkpoint";
    case RankPhase::kDrawing: return "while drawing";
    case RankPhase::kFinishing: return "while writing results";
    case RankPhase::kDone: return "at the end of the run";
  }
  return "";
}

bool barrier(ControlPage& page, int local_rank, int spins) noexcept {
  if (page.local_size == 1) return true;
  if (page.has_failed()) return false;
  RankSlot& slot = page.slots[local_rank];
  const std::uint32_t phase = page.barrier_phase.load(std::memory_order_acquire);
  slot.waits.store(phase + 1, std::memory_order_relaxed);
  bool passed = true;
  if (page.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<std::uint32_t>(page.local_size)) {
    passed = wait_for_others(page, phase, spins);
  } else {
    page.arrived.store(0, std::memory_order_relaxed);
    page.barrier_phase.store(phase + 1);
    if (page.sleepers.load() > 0) futex_wake_all(page.barrier_phase, FutexReach::kSharedMemory);
  }
  slot.heart.beat();
  slot.waits.store(0, std::memory_order_relaxed);
  return passed;
}

FailureFacts facts_of(const ControlPage& page, int local_rank) noexcept {
  const RankSlot& slot = page.slots[local_rank];
  FailureFacts facts{};
  facts.rank = page.first_rank + local_rank;
  facts.pid = slot.pid.load();
  facts.exit_code = 5;
  facts.phase = static_cast<RankPhase>(slot.phase.load());
  facts.step = slot.step.load();
  facts.operation = slot.position.operation();
  facts.row = slot.row.load();
  std::memcpy(facts.host, page.host, sizeof facts.host);
  return facts;
}

bool claim_failure(ControlPage& page) noexcept {
  std::uint32_t none = 0;
  return page.failure.state.compare_exchange_strong(none, 1);
}

void publish_failure(ControlPage& page, const FailureFacts& facts) noexcept {
  static_cast<FailureFacts&>(page.failure) = facts;
  page.failure.state.store(2, std::memory_order_release);
  futex_wake_all(page.barrier_phase, FutexReach::kSharedMemory);
}

bool record_failure(ControlPage& page, const FailureFacts& facts) noexcept {
  if (!claim_failure(page)) return false;
  publish_failure(page, facts);
  return true;
}

void complete_failure(ControlPage& page, std::uint32_t state, int local_rank) noexcept {
  FailureFacts facts = facts_of(page, local_rank);
  facts.kind = FailureKind::kEnded;
  facts.rank = -1;
  if (page.failure.state.compare_exchange_strong(state, state + 2)) publish_failure(page, facts);
}

bool record_failure(ControlPage& page, FailureKind kind, int local_rank, int exit_code) noexcept {
  FailureFacts facts = facts_of(page, local_rank);
  facts.kind = kind;
  facts.exit_code = exit_code;
  return record_failure(page, facts);
}

}  // namespace bascule
