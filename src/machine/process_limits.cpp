// SPDX-License-Identifier: Apache-2.0
#include "src/machine/process_limits.h"

#include <algorithm>
#include <cmath>

#include "src/machine/machine.h"

namespace bascule {
namespace {

void set_limit(const Fact& limit, std::size_t* bytes) {
  if (limit && *limit != kUnlimited) *bytes = static_cast<std::size_t>(*limit);
}

}  // namespace

ProcessLimits read_process_limits(const std::string& root) {
  ProcessLimits limits;
  set_limit(read_memory(root).bytes, &limits.memory_bytes);
  for (const GroupFacts& group : read_groups(root)) {
    if (group.processors) limits.processors = std::min(limits.processors, *group.processors);
    if (!group.memory_bytes || static_cast<std::size_t>(*group.memory_bytes) >= limits.memory_bytes) continue;
    limits.memory_bytes = static_cast<std::size_t>(*group.memory_bytes);
    limits.memory_owner = group.folder + (group.version == 2 ? "/memory.max" : "/memory.limit_in_bytes");
  }
  const ProcessFacts own = read_process(root);
  set_limit(own.address_bytes, &limits.address_bytes);
  set_limit(own.data_bytes, &limits.data_bytes);
  set_limit(own.stack_bytes, &limits.stack_bytes);
  set_limit(own.address_bytes_used, &limits.address_bytes_used);
  set_limit(own.data_bytes_used, &limits.data_bytes_used);
  return limits;
}

int threads_within(const ProcessLimits& limits, int cores, int processes) {
  const double share = std::floor(limits.processors / processes + 1e-9);
  return std::max(1, static_cast<int>(std::min(static_cast<double>(cores), share)));
}

}  // namespace bascule
