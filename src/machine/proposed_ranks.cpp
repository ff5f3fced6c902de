// SPDX-License-Identifier: Apache-2.0
#include "src/machine/proposed_ranks.h"

#include <algorithm>

namespace bascule {

ProposedRanks propose_ranks(const std::vector<NodeFacts>& nodes, const std::vector<std::int64_t>& cores,
                            std::int64_t threads) {
  int used = 0, with_cores = 0;
  std::int64_t most = 0;  // of the usable cores of a node
  for (const NodeFacts& node : nodes) {
    const std::vector<std::int64_t> of_node = numbers_of_list(node.cores);
    const std::int64_t usable = std::count_if(of_node.begin(), of_node.end(), [&](std::int64_t core) {
      return std::find(cores.begin(), cores.end(), core) != cores.end();
    });
    with_cores += of_node.empty() ? 0 : 1;  // others are memory alone
    used += usable > 0 ? 1 : 0;
    most = std::max(most, usable);
  }
  if (used == 0) return {1, "the system does not say which cores have which memory"};
  if (nodes.size() == 1) return {1, "this machine has one memory node"};
  if (used == 1)
    return {1, with_cores == 1 ? "one memory node has all cores of this machine"
                               : "the cores that may be used here are of one memory node"};
  if (threads > 0 && threads <= most) return {1, "one memory node has cores for all threads"};
  return {used, "one for each memory node, whose cores then use its memory"};
}

}  // namespace bascule
