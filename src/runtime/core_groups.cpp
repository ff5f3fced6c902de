// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/core_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace bascule {
namespace {

// Groups of at most kMostOfGroup, of sizes that differ by one at most.
void add_groups(int threads, std::vector<int>* sizes) {
  const int groups = (threads + kMostOfGroup - 1) / kMostOfGroup;
  for (int g = 0; g < groups; ++g) sizes->push_back(threads * (g + 1) / groups - threads * g / groups);
}

// By core, the first core that shares its cache of the highest level.
std::map<std::int64_t, std::int64_t> shared_caches(const std::vector<CacheFacts>& caches) {
  std::int64_t highest = 0;
  for (const CacheFacts& cache : caches) highest = std::max(highest, cache.level.value_or(0));
  std::map<std::int64_t, std::int64_t> first_of;
  for (const CacheFacts& cache : caches) {
    const std::vector<std::int64_t> sharers = numbers_of_list(cache.cores);
    // A virtual machine may state a cache for each core: such ones make no groups.
    if (cache.level != highest || sharers.size() < 2) continue;
    for (const std::int64_t core : sharers) first_of[core] = sharers.front();
  }
  return first_of;
}

// The threads from `begin` to before `end`.
CoreGroups part_of(const CoreGroups& groups, int begin, int end) {
  CoreGroups part;
  if (!groups.cores.empty()) part.cores.assign(groups.cores.begin() + begin, groups.cores.begin() + end);
  int first = 0;
  for (const int size : groups.sizes) {
    const int shared = std::min(first + size, end) - std::max(first, begin);
    if (shared > 0) part.sizes.push_back(shared);
    first += size;
  }
  return part;
}

}  // namespace

CoreGroups groups_anywhere(int threads) {
  CoreGroups groups;
  add_groups(threads, &groups.sizes);
  return groups;
}

CoreGroups groups_of_cores(int threads, const std::vector<std::int64_t>& allowed, const std::vector<CoreFacts>& cores,
                           const std::vector<CacheFacts>& caches) {
  std::map<std::int64_t, std::int64_t> cache_of = shared_caches(caches), node_of;
  for (const CoreFacts& core : cores) node_of[core.number] = core.node.value_or(0);
  using Place = std::pair<std::int64_t, std::int64_t>;  // node, cache
  std::map<Place, std::vector<int>> places;
  for (const std::int64_t core : allowed) {
    const auto cache = cache_of.find(core);
    places[{node_of[core], cache == cache_of.end() ? -1 : cache->second}].push_back(static_cast<int>(core));
  }
  CoreGroups groups;
  for (const auto& [place, of_place] : places) {
    const int taken = std::min(static_cast<int>(of_place.size()), threads - static_cast<int>(groups.cores.size()));
    groups.cores.insert(groups.cores.end(), of_place.begin(), of_place.begin() + taken);
    add_groups(taken, &groups.sizes);
  }
  return groups;
}

int threads_of(const CoreGroups& groups) { return std::accumulate(groups.sizes.begin(), groups.sizes.end(), 0); }

std::vector<CoreGroups> groups_of_workers(const CoreGroups& groups, int workers) {
  const std::vector<int> shares =
      workers == 0 ? groups.sizes : std::vector<int>(static_cast<std::size_t>(workers), threads_of(groups) / workers);
  std::vector<CoreGroups> of_workers;
  int first = 0;
  for (const int share : shares) {
    of_workers.push_back(part_of(groups, first, first + share));
    first += share;
  }
  return of_workers;
}

}  // namespace bascule
