// SPDX-License-Identifier: Apache-2.0
// The control page of a node: what its ranks tell each other in shared memory. A barrier, a few numbers a rank,
// heartbeats, and the record of the first failure. Plain data and atomics: it lies in memory that starts as zero, and
// is never constructed or destroyed. All functions are for after the seal too: noexcept, no allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/futex.h"
#include "src/base/span.h"
#include "src/base/tape_position.h"

namespace bascule {

// The activity of a rank. The error line about a failed rank names it.
enum class RankPhase : std::uint32_t {
  kStarting = 0,
  kSealing,
  kWaitingForData,
  kComputing,
  kReducing,
  kUpdating,
  kEvaluating,
  kSaving,
  kDrawing,
  kFinishing,
  kDone,  // leaves of its own accord
};
const char* phase_words(RankPhase phase) noexcept;

constexpr std::size_t kExchanged = 8;  // numbers of a rank in one exchange

struct alignas(kCacheLine) RankSlot {
  Heartbeat heart;
  TapePosition position;
  alignas(kCacheLine) std::atomic<std::int32_t> pid;
  std::atomic<std::uint32_t> phase;
  std::atomic<std::int64_t> step;    // the update under way, or the batch that is drawn, from 1; 0: none yet
  std::atomic<std::int64_t> row;     // 1 + the row of the data whose file is being read; 0: none
  std::atomic<std::uint32_t> waits;  // 1 + the phase of the barrier that it waits in; 0: in none
  double numbers[2][kExchanged];     // of this exchange and the one before, in turn
};

enum class FailureKind : std::int32_t {
  kNone = 0,
  kEnded,   // the process exited without setting a status
  kStuck,   // no heartbeat for too long
  kGaveUp,  // it met an error, and says itself which
  kAbsent,  // of another node: it did not come at the start
};

// Whom it befell, and what it was doing. Goes from node to node as it is.
struct FailureFacts {
  FailureKind kind;
  std::int32_t rank;  // of the run; -1: not known
  std::int32_t pid;
  std::int32_t exit_code;
  RankPhase phase;
  std::int64_t step, operation, row;  // row: as in RankSlot
  char host[64];                      // "": there is one node
};

struct FailureRecord : FailureFacts {
  std::atomic<std::uint32_t> state;    // 0: none; 2: here; odd: being written, for the first time, the second, ...
  std::atomic<std::uint32_t> is_told;  // somebody has printed the line
};

struct alignas(kPage) ControlPage {
  std::int32_t local_size;
  std::int32_t first_rank;    // rank of the node's first process
  std::int32_t has_launcher;  // `bascule run` started the ranks, and will tell what befell them
  std::int32_t node, nodes;
  std::int32_t parent;  // process that started the ranks of this node
  char host[64];        // where there are several nodes
  alignas(kCacheLine) std::atomic<std::uint32_t> barrier_phase;
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> has_met;      // the node's first rank has seen all others, of other nodes too
  std::atomic<std::int32_t> awaited_rank;  // first one of a node that is waited for at the start; -1: not known
  alignas(kCacheLine) FailureRecord failure;
  std::atomic<std::uint32_t> is_cut_off;  // the failure is the silence of another node, which may think the same of us
  alignas(kCacheLine) std::atomic<std::int32_t> stop_signal;  // the launcher, or a rank, was asked to stop
  RankSlot slots[1];                                          // local_size of them

  // world_size: of a run on several nodes; behind the slots lie then the numbers of all its ranks, twice as in a slot.
  static std::size_t bytes(int local_size, int world_size = 0) noexcept {
    const std::size_t numbers = 2 * kExchanged * static_cast<std::size_t>(world_size) * sizeof(double);
    return align_up(sizeof(ControlPage) + static_cast<std::size_t>(local_size) * sizeof(RankSlot) + numbers, kPage);
  }
  double* numbers_of_all(std::uint32_t turn, int world_size) noexcept {
    double* const first = static_cast<double*>(static_cast<void*>(slots + local_size));
    return first + turn * kExchanged * static_cast<std::size_t>(world_size);
  }
  bool has_failed() const noexcept { return failure.state.load(std::memory_order_acquire) != 0; }
  // The rank waits for others: its silence is no sign of trouble.
  bool is_waiting(int local_rank) const noexcept { return slots[local_rank].waits.load() == barrier_phase.load() + 1; }
};

// Returns when all `local_size` processes have called it, true, or, false, as soon as a failure is recorded. Everything
// written before the call is visible to all after it. spins: polls before it gives way to others, and then sleeps; 0
// where ranks share cores.
bool barrier(ControlPage& page, int local_rank, int spins) noexcept;

// The activity of a rank of this node.
FailureFacts facts_of(const ControlPage& page, int local_rank) noexcept;
// The two halves of record_failure: true to the first who claims, and from then on no rank begins anything; only once
// it is published do processes end.
bool claim_failure(ControlPage& page) noexcept;
void publish_failure(ControlPage& page, const FailureFacts& facts) noexcept;
// Records a failure, if it is the first; then wakes all that wait. True: it was the first.
bool record_failure(ControlPage& page, const FailureFacts& facts) noexcept;
// That of a rank of this node, with what its slot says.
bool record_failure(ControlPage& page, FailureKind kind, int local_rank, int exit_code) noexcept;
// The process that wrote the record ended or stopped before it was complete, in this state (odd): writes it anew, as
// the end of an unknown rank, unless another process does.
void complete_failure(ControlPage& page, std::uint32_t state, int local_rank) noexcept;

}  // namespace bascule
