// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/cores.h"

#include <algorithm>

#include <hwloc.h>

namespace bascule {

std::vector<int> processors_by_neighbourhood() {
  std::vector<int> order;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) == 0) {
    if (hwloc_topology_load(topology) == 0) {
      const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
      for (int i = 0; i < count; ++i)
        order.push_back(
            static_cast<int>(hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, static_cast<unsigned>(i))->os_index));
    }
    hwloc_topology_destroy(topology);
  }
  // What hwloc does not know comes last, so that every processor is there.
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (std::find(order.begin(), order.end(), number) == order.end()) order.push_back(number);
  }
  return order;
}

cpu_set_t part_of_processors(const std::vector<int>& by_neighbourhood, const cpu_set_t& allowed, int rank, int ranks) {
  std::vector<int> own;
  for (const int number : by_neighbourhood) {
    if (number >= 0 && number < CPU_SETSIZE && CPU_ISSET(number, &allowed)) own.push_back(number);
  }
  const int count = static_cast<int>(own.size());
  const int begin = count * rank / ranks, end = std::max(begin + 1, count * (rank + 1) / ranks);
  cpu_set_t part;
  CPU_ZERO(&part);
  for (int i = begin; i < end && i < count; ++i) CPU_SET(own[static_cast<std::size_t>(i)], &part);
  return part;
}

}  // namespace bascule
