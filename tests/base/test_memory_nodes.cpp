// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory_nodes.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string>

#include "src/base/span.h"
#include "tests/machine/fact_tree.h"

namespace bascule::test {
namespace {

// A system with three nodes, of which the last has memory alone: it answers the calls of this process. Where cores are
// a folder says.
int policy_of_process = MPOL_DEFAULT;
unsigned long allowed_nodes = 7, expected_nodes = 3;
int expected_mode = MPOL_INTERLEAVE;
int spread_calls = 0;
bool are_as_expected = true;
alignas(kPage) std::byte memory[4 * kPage];

void answer(int, siginfo_t* info, void* context) {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (info->si_syscall == SYS_get_mempolicy) {
    auto* const mode = reinterpret_cast<int*>(registers[REG_RDI]);
    auto* const nodes = reinterpret_cast<unsigned long*>(registers[REG_RSI]);
    if (mode != nullptr) *mode = policy_of_process;
    if ((registers[REG_R8] & MPOL_F_MEMS_ALLOWED) != 0) *nodes = allowed_nodes;
  } else if (info->si_syscall == SYS_move_pages) {
    // Every other page at node 1, the others at node 0, and the last one nowhere.
    auto* const places = reinterpret_cast<int*>(registers[REG_R8]);
    for (greg_t i = 0; i < registers[REG_RSI]; ++i) places[i] = static_cast<int>(i % 2);
    places[registers[REG_RSI] - 1] = -ENOENT;
  } else {
    ++spread_calls;
    are_as_expected = are_as_expected && reinterpret_cast<std::byte*>(registers[REG_RDI]) == memory &&
                      registers[REG_RSI] == static_cast<greg_t>(sizeof memory) && registers[REG_RDX] == expected_mode &&
                      *reinterpret_cast<unsigned long*>(registers[REG_R10]) == expected_nodes;
  }
  registers[REG_RAX] = 0;
}

void become_that_system() {
  struct sigaction action = {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_mempolicy, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_move_pages, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {6, program};
  if (sigaction(SIGSYS, &action, nullptr) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    _exit(9);
}

// Where this process's cores are, and one that it may not use.
class MemoryNodes : public FactTree {
 protected:
  void place_cores(int own_node, int other_node) const {
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &own)) place(core, own_node);
    }
    int other = 0;
    while (CPU_ISSET(other, &own)) ++other;
    place(other, other_node);
  }
  void place(int core, int node) const {
    write("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/node" + std::to_string(node) + "/cpulist", "");
  }

  // The exit code: how often the memory was spread.
  [[noreturn]] void spread_and_exit(NodeSharing sharing) const {
    become_that_system();
    spread_over_nodes(memory, sizeof memory, sharing, root().c_str());
    _exit(are_as_expected ? spread_calls : 8);
  }
};

TEST_F(MemoryNodes, WithCoresShareWhatAllRanksRead) {
  place_cores(0, 1);
  EXPECT_EXIT(spread_and_exit(NodeSharing::kAllRanks), testing::ExitedWithCode(1), "");
}

// A container may hide /sys/devices/system/node.
TEST_F(MemoryNodes, ShareWhatAllRanksReadWhereNobodySaysWhoHasCores) {
  expected_nodes = 7;
  EXPECT_EXIT(spread_and_exit(NodeSharing::kAllRanks), testing::ExitedWithCode(1), "");
  expected_nodes = 3;
}

TEST_F(MemoryNodes, KeepTheMemoryOfARankWhoseCoresAreOfOneNode) {
  place_cores(0, 1);
  EXPECT_EXIT(spread_and_exit(NodeSharing::kOwnThreads), testing::ExitedWithCode(0), "");
}

TEST_F(MemoryNodes, ThatMayNotBeUsedAreLeftOut) {
  place_cores(0, 1);
  allowed_nodes = 1;  // a cpuset
  EXPECT_EXIT(spread_and_exit(NodeSharing::kAllRanks), testing::ExitedWithCode(0), "");
  allowed_nodes = 7;
}

TEST_F(MemoryNodes, FollowThePolicyThatTheProcessWasStartedWith) {
  place_cores(0, 1);
  policy_of_process = MPOL_BIND;
  EXPECT_EXIT(spread_and_exit(NodeSharing::kAllRanks), testing::ExitedWithCode(0), "");
  policy_of_process = MPOL_DEFAULT;
}

TEST_F(MemoryNodes, OfARankGetWhatItAloneWorksOn) {
  place_cores(1, 0);
  EXPECT_EXIT(
      {
        become_that_system();
        expected_mode = MPOL_PREFERRED;
        expected_nodes = 2;
        keep_at_nodes(memory, sizeof memory, nodes_of_own_cores(root().c_str()));
        _exit(are_as_expected ? spread_calls : 8);
      },
      testing::ExitedWithCode(1), "");
}

TEST_F(MemoryNodes, AreLeftAloneWhereTheyAreUnknown) {
  EXPECT_EXIT(
      {
        become_that_system();
        const NodeSet none = nodes_of_own_cores(root().c_str());
        keep_at_nodes(memory, sizeof memory, none);
        _exit(spread_calls == 0 && !share_elsewhere(memory, sizeof memory, none) ? 0 : 8);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(MemoryNodes, OfPagesThatAreSomewhereTheShareOfOthersIsCounted) {
  EXPECT_EXIT(
      {
        become_that_system();
        NodeSet first;
        first.add(0);
        _exit(share_elsewhere(memory, sizeof memory, first) == 1.0 / 3.0 ? 0 : 8);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bascule::test
#endif
