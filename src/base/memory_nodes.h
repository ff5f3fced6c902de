// SPDX-License-Identifier: Apache-2.0
// Where memory lies on a machine with several memory nodes (sockets, or parts of them).
#pragma once

#include <cstddef>
#include <optional>

namespace bascule {

// By itself the system puts a page on the node of the thread that first touches it. That is right for memory of a rank
// whose cores are all of one node. But pages that threads of several nodes read would lie as they happened to be
// touched, at worst all on one node, whose rate all would share. So pages of such memory are dealt to the nodes in
// turn. Bits and figures of memory stay the same.
//
// All of this does nothing on a machine of one node, where the process was started with a policy of its own (numactl),
// and where the system refuses (a container may).
enum class NodeSharing {
  kOwnThreads,  // memory of this process: dealt where its cores are of several nodes, to these
  kAllRanks     // of all ranks of this machine: dealt to all nodes that have cores
};

// Before the pages are touched. root: a folder in which /sys lies, for tests; "" for the system's own.
void spread_over_nodes(std::byte* begin, std::size_t bytes, NodeSharing sharing, const char* root = "") noexcept;

// Memory nodes, by number.
struct NodeSet {
  static constexpr int kMost = 1024;  // as Linux may be built for
  static constexpr int kWordBits = 8 * static_cast<int>(sizeof(unsigned long));

  unsigned long words[kMost / kWordBits] = {};

  bool has(int node) const noexcept { return (words[node / kWordBits] >> (node % kWordBits) & 1) != 0; }
  void add(int node) noexcept { words[node / kWordBits] |= 1UL << (node % kWordBits); }
  void drop(int node) noexcept { words[node / kWordBits] &= ~(1UL << (node % kWordBits)); }
  int count() const noexcept;
};

// The nodes of the cores that the calling thread may use: before it is pinned to one of them. Empty where memory is
// left as the system places it (above).
NodeSet nodes_of_own_cores(const char* root = "") noexcept;

// Of memory that was spread over all nodes, a part that the cores of these use most: its pages go to them, in turn, and
// elsewhere only where they have no room. Before the pages are touched. No nodes: does nothing.
void keep_at_nodes(std::byte* begin, std::size_t bytes, const NodeSet& nodes) noexcept;

// The share of a range's resident pages that lies at other nodes, from a sample of them. Unknown where the system does
// not say, and without nodes.
std::optional<double> share_elsewhere(const std::byte* begin, std::size_t bytes, const NodeSet& nodes) noexcept;

}  // namespace bascule
