// SPDX-License-Identifier: Apache-2.0
// How many ranks of a run suit a machine: one for each memory node that has cores for them, so that each finds its own
// memory near its cores. A proposal alone: a file states its ranks, as other numbers of ranks give other bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/machine/machine.h"

namespace bascule {

struct ProposedRanks {
  int ranks = 1;
  std::string reason;  // "one for each memory node, whose cores then use its memory"
};

// cores: that the process may use. threads: that it is told to use; 0: all of them.
ProposedRanks propose_ranks(const std::vector<NodeFacts>& nodes, const std::vector<std::int64_t>& cores,
                            std::int64_t threads = 0);

}  // namespace bascule
