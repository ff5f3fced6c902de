// SPDX-License-Identifier: Apache-2.0
// Whether a run fits what the system lets it have, asked before anything large is mapped. Before the seal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/machine/process_limits.h"
#include "src/record/recorded_run.h"

namespace bascule {

// The kind of a limit: the memory of all ranks of this machine; addresses of one process (RLIMIT_AS), mapped or not
// used yet; data of one process (RLIMIT_DATA).
enum class LimitKind { kMemory, kAddresses, kData };

struct MemoryLimit {
  LimitKind kind = LimitKind::kMemory;
  std::size_t bytes = 0;
  std::string owner;  // who sets it
};

// All limits that hold for a run here: machine.memory_limit_gib, the machine's memory, control groups, and the limits
// of a process.
std::vector<MemoryLimit> limits_here(const MachineSettings& machine, const ProcessLimits& limits);
// The limits of a plan: only machine.memory_limit_gib where it is set, as the plan may be for another machine.
std::vector<MemoryLimit> limits_of_plan(const MachineSettings& machine, const ProcessLimits& limits);
// The memory of all ranks of this machine that a plan is made for: machine.memory_limit_gib, or the machine's.
std::size_t memory_of_plan(const MachineSettings& machine, const ProcessLimits& limits);

// The error of a run that needs more than the limit. who: "the plan".
Error too_large(const PlannedRun& run, const MemoryLimit& limit, const char* who, std::size_t needed,
                const std::string& advice);

bool fits(const RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits);
// The largest training batch with which the run fits, of which no more than all rows of a rank are looked at. 0: none.
struct LargestBatch {
  std::int64_t samples = 0;
  bool is_all_rows = false;
};
// In this precision, by gradient_checkpointing.
struct LargestBatches {
  LargestBatch off, selective, fit, full;
};
LargestBatches largest_batches_that_fit(RecordedRun& run, Precision precision, const ProcessLimits& now,
                                        const std::vector<MemoryLimit>& limits);
// Throws Error kMemory if the run does not fit, naming the limit and what would fit.
void check_fits(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits);

}  // namespace bascule
