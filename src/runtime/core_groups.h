// SPDX-License-Identifier: Apache-2.0
// Which cores compute threads take, and which threads form a group: they share a cache, so they deal tasks among
// themselves first, and meet at a barrier of their own (threads.h).
#pragma once

#include <cstdint>
#include <vector>

#include "src/machine/machine.h"

namespace bascule {

// So many threads raise one counter in about the time that the line takes to one more group and back.
constexpr int kMostOfGroup = 16;

struct CoreGroups {
  std::vector<int> cores;  // by thread; empty: they may run anywhere
  std::vector<int> sizes;  // of each group, in the threads' order; their sum is the number of threads
};

// For a thread on each of the first `threads` of the allowed cores: node by node, within a node by the cache that most
// cores share.
CoreGroups groups_of_cores(int threads, const std::vector<std::int64_t>& allowed, const std::vector<CoreFacts>& cores,
                           const std::vector<CacheFacts>& caches);
// For threads that may run anywhere.
CoreGroups groups_anywhere(int threads);

// The threads of workers that compute apart from one another. workers: a divisor of the number of threads, each has an
// equal share; 0: each group is a worker.
std::vector<CoreGroups> groups_of_workers(const CoreGroups& groups, int workers);
int threads_of(const CoreGroups& groups);

}  // namespace bascule
