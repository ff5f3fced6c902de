// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

namespace bascule {
namespace {

constexpr int kMostNodes = 1024;  // as Linux may be built for
constexpr int kWordBits = 8 * static_cast<int>(sizeof(unsigned long));

struct NodeSet {
  unsigned long words[kMostNodes / kWordBits] = {};

  bool has(int node) const { return (words[node / kWordBits] >> (node % kWordBits) & 1) != 0; }
  void drop(int node) { words[node / kWordBits] &= ~(1UL << (node % kWordBits)); }
  int count() const {
    int nodes = 0;
    for (const unsigned long word : words) nodes += __builtin_popcountl(word);
    return nodes;
  }
};

// The library of these calls (libnuma) would be needed for nothing else.
long get_policy(int* mode, NodeSet* nodes, int flags) {
  return syscall(SYS_get_mempolicy, mode, nodes->words, kMostNodes, nullptr, flags);
}

bool has_core(int node, const cpu_set_t& cores) {
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    char path[64];
    if (!CPU_ISSET(core, &cores)) continue;
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node%d", core, node);
    if (access(path, F_OK) == 0) return true;
  }
  return false;
}

}  // namespace

void spread_over_nodes(std::byte* begin, std::size_t bytes, NodeSharing sharing) noexcept {
  int mode = MPOL_DEFAULT;
  NodeSet nodes, unused;
  if (get_policy(&mode, &unused, 0) != 0 || mode != MPOL_DEFAULT) return;
  if (get_policy(nullptr, &nodes, MPOL_F_MEMS_ALLOWED) != 0 || nodes.count() < 2) return;
  if (sharing == NodeSharing::kOwnThreads) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    for (int node = 0; node < kMostNodes; ++node) {
      if (nodes.has(node) && !has_core(node, cores)) nodes.drop(node);
    }
    if (nodes.count() < 2) return;
  }
  (void)syscall(SYS_mbind, begin, bytes, MPOL_INTERLEAVE, nodes.words, kMostNodes + 1, 0);
}

}  // namespace bascule
