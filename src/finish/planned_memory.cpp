// SPDX-License-Identifier: Apache-2.0
#include "src/finish/planned_memory.h"

#include <cstddef>
#include <string>

namespace bascule {

std::vector<MemoryCategory> planned_memory(const MemoryPlan& plan) {
  const std::size_t ranks = plan.ranks;
  const std::string note = ranks > 1 ? std::to_string(ranks) + " ranks together" : "";
  std::vector<MemoryCategory> memory;
  for (const PlannedRange& range : plan.categories)
    memory.push_back({range.name, range.shared ? range.bytes : ranks * range.bytes, range.shared ? "" : note});
  memory.push_back({"index of the data", ranks * plan.index_bytes, note});
  memory.push_back({"program and libraries", plan.program_of_ranks(), "estimated"});
  return memory;
}

}  // namespace bascule
