// SPDX-License-Identifier: Apache-2.0
// Ranks that mpirun started on one machine, as if they were on several.
#pragma once

#include <string>

#include "src/distributed/group.h"

namespace bascule::test {

// each: how many ranks a node has.
inline RankPlace place_on_nodes(int each) {
  RankPlace place = place_from_environment();
  place.local_size = each;
  place.local_rank = place.rank % each;
  place.node = place.rank / each;
  place.nodes = place.world_size / each;
  place.run += "-" + std::to_string(place.node);
  return place;
}

}  // namespace bascule::test
