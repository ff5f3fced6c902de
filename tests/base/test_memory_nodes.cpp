// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory_nodes.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>

#include "src/base/span.h"

namespace bascule::test {
namespace {

// A system with two nodes, of which all cores are of the first one: it answers the calls of this process.
int policy_of_process = MPOL_DEFAULT;
int spread_calls = 0;
bool are_as_expected = true;
alignas(kPage) std::byte memory[4 * kPage];

void answer(int, siginfo_t* info, void* context) {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (info->si_syscall == SYS_get_mempolicy) {
    auto* const mode = reinterpret_cast<int*>(registers[REG_RDI]);
    auto* const nodes = reinterpret_cast<unsigned long*>(registers[REG_RSI]);
    if (mode != nullptr) *mode = policy_of_process;
    if ((registers[REG_R8] & MPOL_F_MEMS_ALLOWED) != 0) *nodes = 3;
  } else {
    ++spread_calls;
    are_as_expected = are_as_expected && reinterpret_cast<std::byte*>(registers[REG_RDI]) == memory &&
                      registers[REG_RSI] == static_cast<greg_t>(sizeof memory) &&
                      registers[REG_RDX] == MPOL_INTERLEAVE &&
                      *reinterpret_cast<unsigned long*>(registers[REG_R10]) == 3;
  }
  registers[REG_RAX] = 0;
}

void become_a_system_of_two_nodes() {
  struct sigaction action = {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_mempolicy, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {5, program};
  if (sigaction(SIGSYS, &action, nullptr) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    _exit(9);
}

// The exit code: how often the memory was spread.
void spread_and_exit(NodeSharing sharing, int policy) {
  become_a_system_of_two_nodes();
  policy_of_process = policy;
  spread_over_nodes(memory, sizeof memory, sharing);
  _exit(are_as_expected ? spread_calls : 8);
}

TEST(MemoryNodes, ShareWhatAllRanksRead) {
  EXPECT_EXIT(spread_and_exit(NodeSharing::kAllRanks, MPOL_DEFAULT), testing::ExitedWithCode(1), "");
}

TEST(MemoryNodes, KeepTheMemoryOfARankWhoseCoresAreOfOneNode) {
  EXPECT_EXIT(spread_and_exit(NodeSharing::kOwnThreads, MPOL_DEFAULT), testing::ExitedWithCode(0), "");
}

TEST(MemoryNodes, FollowThePolicyThatTheProcessWasStartedWith) {
  EXPECT_EXIT(spread_and_exit(NodeSharing::kAllRanks, MPOL_BIND), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bascule::test
#endif
