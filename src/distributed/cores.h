// SPDX-License-Identifier: Apache-2.0
// Which cores a rank works on: of those that its launcher left it, a part that lies together, so that ranks share,
// where there are enough, neither a core's two threads nor a package's memory. Before the seal.
#pragma once

#include <sched.h>

#include <vector>

namespace bascule {

// A thread of a core, as Linux numbers it.
struct Processor {
  int number = 0;
  int core = 0;  // the same number for the threads of one, and for no others
};

// All processors of this machine, neighbours next to each other: threads of a core, cores of a package, packages. Linux
// numbers them otherwise (often all first threads, then all second ones).
std::vector<Processor> processors_by_neighbourhood();

// Rank `rank`'s part of `allowed`, of `ranks` parts: equally many whole cores, give or take one; where there are fewer
// cores than ranks, processors; at least one, shared where there are fewer than ranks.
cpu_set_t part_of_processors(const std::vector<Processor>& by_neighbourhood, const cpu_set_t& allowed, int rank,
                             int ranks);

}  // namespace bascule
