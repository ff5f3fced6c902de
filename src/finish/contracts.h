// SPDX-License-Identifier: Apache-2.0
// The contracts of a run, the figures by which it judges them at its end, and its memory as the report lists it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "src/answer/report.h"
#include "src/base/readable.h"
#include "src/distributed/group.h"
#include "src/plan/memory_plan.h"
#include "src/settings/settings.h"

namespace bascule {

// Figures of sealed memory.
struct SealedFigures {
  std::uint64_t resident_bytes = 0;                    // 0: unknown
  bool guarded = false;                                // allocations were watched
  std::uint64_t foreign_calls = 0, foreign_bytes = 0;  // allocations by libraries after the seal
  std::vector<NamedText> foreign_allocations;          // library -> "n calls, m bytes"
  std::uint64_t sent_bytes = 0, received_bytes = 0;    // of gradients
};

// Of this process, which shares memory with so many others, itself among them. Opens memory again.
SealedFigures measure_sealed(int processes);
// By all ranks together: makes of each number the sum over the ranks of this machine. False: another rank failed.
[[nodiscard]] bool sum_of_machine(Group& group, std::initializer_list<std::uint64_t*> counts,
                                  std::initializer_list<double*> seconds = {});

struct ContractFigures : SealedFigures {
  // Memory.
  std::uint64_t planned_bytes = 0;
  // Bits: whose matrix products the run computed with.
  Products products = Products::kOurs;
  // Durability.
  std::int64_t checkpoints = 0;    // saved by this process
  bool newest_is_in_place = true;  // the checkpoint of the last update
  // Errors: what was skipped, by split.
  std::vector<SplitRows> splits;
  // Honest figures: samples by the records of this process, and by the batches that its tapes were given.
  std::int64_t recorded_samples = 0, trained_samples = 0;
  std::int64_t updates = 0, counted_updates = 0, counted_samples = 0;
};

// Contract "Memory": how far from the plan what is resident may be. Of several processes: where each has its own share.
std::uint64_t memory_tolerance(std::uint64_t planned_bytes, std::size_t processes = 1);

// The pictures of a run that draws, in all processes.
struct DrawnPictures {
  std::int64_t listed = 0, found = 0, drawn = 0;  // found: of earlier starts
  std::int64_t missing = 0;                       // from the folder
  std::int64_t timed = 0;                         // that throughput counts
};

// The contracts that a run can judge of itself, from plain figures. Finish phase.

// In the order of the contracts; those that no run can judge of itself are not checked.
std::vector<ContractResult> judge_contracts(const ContractFigures& figures);
// For a run that draws, and for a model that is served: only the figures of Memory, Sealed and Bits count.
struct ServedRequests {};
std::vector<ContractResult> judge_contracts(const ContractFigures& figures, ServedRequests);
std::vector<ContractResult> judge_contracts(const ContractFigures& figures, const DrawnPictures& pictures);

// The memory of a run as its report lists it: by category, of all ranks of this machine together.

// In the order of the plan; then what the processes hold beside the arena.
std::vector<MemoryCategory> planned_memory(const MemoryPlan& plan);

}  // namespace bascule
