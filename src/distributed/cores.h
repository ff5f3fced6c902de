// SPDX-License-Identifier: Apache-2.0
// Which cores a rank works on: of those that its launcher left it, a part that lies together, so that ranks share
// neither a core's two threads nor, where there are enough, a package's memory. Before the seal.
#pragma once

#include <sched.h>

#include <vector>

namespace bascule {

// All processors of this machine by their numbers, neighbours next to each other: threads of a core, cores of a
// package, packages. Linux numbers them otherwise (often all first threads, then all second ones).
std::vector<int> processors_by_neighbourhood();

// Rank `rank`'s part of `allowed`, of `ranks` equal parts; at least one processor, shared where there are fewer than
// ranks.
cpu_set_t part_of_processors(const std::vector<int>& by_neighbourhood, const cpu_set_t& allowed, int rank, int ranks);

}  // namespace bascule
