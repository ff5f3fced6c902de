// SPDX-License-Identifier: Apache-2.0
// Ranks that mpirun started on one machine, as if they were on several.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
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

// main() of tests that all ranks run together; the last argument is how many of them a node has. *all is their group.
inline int run_on_nodes(int argc, char** argv, Group** all) {
  testing::InitGoogleTest(&argc, argv);
  Group group(place_on_nodes(std::atoi(argv[argc - 1])), {60, nullptr});
  *all = &group;
  const int code = RUN_ALL_TESTS();
  return group.leave() ? code : 5;
}

}  // namespace bascule::test
