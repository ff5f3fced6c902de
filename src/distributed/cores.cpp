// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/group.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <hwloc.h>

namespace bascule {

std::vector<Processor> processors_by_neighbourhood() {
  std::vector<Processor> order;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) == 0) {
    if (hwloc_topology_load(topology) == 0) {
      const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
      for (int i = 0; i < count; ++i) {
        const hwloc_obj_t thread = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, static_cast<unsigned>(i));
        const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, thread);
        const int of_core = core != nullptr ? static_cast<int>(core->logical_index) : CPU_SETSIZE + i;
        order.push_back({static_cast<int>(thread->os_index), of_core});
      }
    }
    hwloc_topology_destroy(topology);
  }
  // Processors unknown to hwloc come last, so that none is missing.
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    const auto is_it = [&](const Processor& one) { return one.number == number; };
    if (std::none_of(order.begin(), order.end(), is_it)) order.push_back({number, 2 * CPU_SETSIZE + number});
  }
  return order;
}

cpu_set_t part_of_processors(const std::vector<Processor>& by_neighbourhood, const cpu_set_t& allowed, int rank,
                             int ranks) {
  std::vector<Processor> own;
  for (const Processor& one : by_neighbourhood) {
    if (one.number >= 0 && one.number < CPU_SETSIZE && CPU_ISSET(one.number, &allowed)) own.push_back(one);
  }
  // Where each of what is dealt begins, and where the last ends: cores, or processors.
  const auto parts = static_cast<std::size_t>(ranks), number = static_cast<std::size_t>(rank);
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (i == 0 || own[i].core != own[i - 1].core) begins.push_back(i);
  }
  if (begins.size() < parts) {
    begins.resize(own.size());
    std::iota(begins.begin(), begins.end(), std::size_t{0});
  }
  const std::size_t count = begins.size(), first = count * number / parts;
  const std::size_t last = std::min(count, std::max(first + 1, count * (number + 1) / parts));
  begins.push_back(own.size());
  cpu_set_t part;
  CPU_ZERO(&part);
  for (std::size_t i = begins[first]; i < begins[last]; ++i) CPU_SET(own[i].number, &part);
  return part;
}

}  // namespace bascule
