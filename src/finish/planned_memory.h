// SPDX-License-Identifier: Apache-2.0
// The memory of a run as its report lists it: by category, of all ranks of this machine together.
#pragma once

#include <vector>

#include "src/answer/report.h"
#include "src/plan/memory_plan.h"

namespace bascule {

// In the order of the plan; then what the processes hold beside the arena.
std::vector<MemoryCategory> planned_memory(const MemoryPlan& plan);

}  // namespace bascule
