// SPDX-License-Identifier: Apache-2.0
// Where memory lies on a machine with several memory nodes (sockets, or parts of them).
#pragma once

#include <cstddef>

namespace bascule {

// By itself the system puts a page on the node of the thread that first touches it. That is right for memory of a rank
// whose cores are all of one node. But pages that threads of several nodes read would lie as they happened to be
// touched, at worst all on one node, whose rate all would share. So pages of such memory are dealt to the nodes in
// turn. Bits and figures of memory stay the same.
enum class NodeSharing {
  kOwnThreads,  // memory of this process: dealt where its cores are of several nodes, to these
  kAllRanks     // of all ranks of this machine: dealt to all nodes
};

// Before the pages are touched. Does nothing on a machine of one node, where the process was started with a policy of
// its own (numactl), and where the system refuses (a container may).
void spread_over_nodes(std::byte* begin, std::size_t bytes, NodeSharing sharing) noexcept;

}  // namespace bascule
