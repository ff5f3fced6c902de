// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "src/base/span.h"

namespace bascule {
namespace {

// The library of these calls (libnuma) would be needed for nothing else.
long get_policy(int* mode, NodeSet* nodes, int flags) {
  return syscall(SYS_get_mempolicy, mode, nodes->words, NodeSet::kMost, nullptr, flags);
}

// The nodes that this process may have memory of; none where it is left as the system places it.
NodeSet nodes_to_place_at() {
  int mode = MPOL_DEFAULT;
  NodeSet nodes, unused;
  if (get_policy(&mode, &unused, 0) != 0 || mode != MPOL_DEFAULT) return {};
  if (get_policy(nullptr, &nodes, MPOL_F_MEMS_ALLOWED) != 0 || nodes.count() < 2) return {};
  return nodes;
}

bool has_core(const char* root, int node, const cpu_set_t& cores) {
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    char path[4096];
    if (!CPU_ISSET(core, &cores)) continue;
    std::snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/node%d", root, core, node);
    if (access(path, F_OK) == 0) return true;
  }
  return false;
}

NodeSet those_with_cores(const NodeSet& nodes, const char* root, const cpu_set_t& cores) {
  NodeSet with_cores;
  for (int node = 0; node < NodeSet::kMost; ++node) {
    if (nodes.has(node) && has_core(root, node, cores)) with_cores.add(node);
  }
  return with_cores;
}

// Memory without cores of its own (behind CXL, say) is slow for all.
NodeSet nodes_of_all_ranks(const char* root) {
  const NodeSet nodes = nodes_to_place_at();
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  const NodeSet with_cores = those_with_cores(nodes, root, all);
  return with_cores.count() > 0 ? with_cores : nodes;  // a container may hide where cores are
}

void deal_to(const NodeSet& nodes, std::byte* begin, std::size_t bytes) {
  (void)syscall(SYS_mbind, begin, bytes, nodes.count() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE, nodes.words,
                NodeSet::kMost + 1, 0);
}

}  // namespace

int NodeSet::count() const noexcept {
  int nodes = 0;
  for (const unsigned long word : words) nodes += __builtin_popcountl(word);
  return nodes;
}

void spread_over_nodes(std::byte* begin, std::size_t bytes, NodeSharing sharing, const char* root) noexcept {
  const NodeSet nodes = sharing == NodeSharing::kOwnThreads ? nodes_of_own_cores(root) : nodes_of_all_ranks(root);
  if (nodes.count() > 1) deal_to(nodes, begin, bytes);
}

NodeSet nodes_of_own_cores(const char* root) noexcept {
  const NodeSet nodes = nodes_to_place_at();
  cpu_set_t cores;
  if (nodes.count() == 0 || sched_getaffinity(0, sizeof cores, &cores) != 0) return {};
  return those_with_cores(nodes, root, cores);
}

void keep_at_nodes(std::byte* begin, std::size_t bytes, const NodeSet& nodes) noexcept {
  if (bytes > 0 && nodes.count() > 0) deal_to(nodes, begin, bytes);
}

std::optional<double> share_elsewhere(const std::byte* begin, std::size_t bytes, const NodeSet& nodes) noexcept {
  constexpr std::size_t kAtOnce = 512, kSampled = 16 * kAtOnce;
  if (nodes.count() == 0) return std::nullopt;
  const std::size_t pages = divide_up(bytes, kPage), step = divide_up(pages, kSampled);
  std::int64_t all = 0, elsewhere = 0;
  const void* sampled[kAtOnce];
  int places[kAtOnce];
  for (std::size_t page = 0; page < pages;) {
    unsigned long count = 0;
    for (; count < kAtOnce && page < pages; page += step) sampled[count++] = begin + page * kPage;
    // Without nodes to move to it says where each page is; a negative number is no node, but why there is none.
    if (syscall(SYS_move_pages, 0, count, sampled, nullptr, places, 0) != 0) return std::nullopt;
    for (unsigned long i = 0; i < count; ++i) {
      if (places[i] < 0 || places[i] >= NodeSet::kMost) continue;
      ++all;
      elsewhere += nodes.has(places[i]) ? 0 : 1;
    }
  }
  if (all == 0) return std::nullopt;
  return static_cast<double>(elsewhere) / static_cast<double>(all);
}

}  // namespace bascule
