// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/core_groups.h"

#include <algorithm>
#include <map>
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

}  // namespace bascule
