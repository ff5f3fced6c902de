// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/group.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/distributed/launch.h"
#include "src/distributed/watch.h"
#include "tests/distributed/forked_ranks.h"

namespace bascule::test {
namespace {

constexpr GroupOptions kPatient{30, nullptr};

TEST(Group, OfOneIsNothing) {
  Group group(RankPlace{}, kPatient);
  const double mine[] = {1.5, 2.5};
  double all[2] = {0.0, 0.0};
  EXPECT_TRUE(group.barrier());
  EXPECT_TRUE(group.exchange({mine, 2}, {all, 2}));
  EXPECT_EQ(all[1], 2.5);
  EXPECT_EQ(group.share(10).bytes(), kPage);
  EXPECT_TRUE(group.leave());
}

TEST(Group, SharesOnePageAlignedZeroMemoryThatEveryRankWritesAndReads) {
  for (const int ranks : {2, 3, 4}) {
    const Ends ends = run_ranks(ranks, [](const RankPlace& place) {
      Group group(place, kPatient);
      const std::size_t each = 3 * kPage + 64;
      const SharedMemory memory = group.share(each * static_cast<std::size_t>(place.local_size));
      if (reinterpret_cast<std::uintptr_t>(memory.data()) % kPage != 0) return 1;
      std::byte* const mine = memory.data() + each * static_cast<std::size_t>(place.local_rank);
      if (std::any_of(mine, mine + each, [](std::byte b) { return b != std::byte{0}; })) return 2;
      if (!group.barrier()) return 3;
      std::fill_n(mine, each, static_cast<std::byte>(place.local_rank + 1));
      if (!group.barrier()) return 4;
      for (int rank = 0; rank < place.local_size; ++rank) {
        const std::byte* const theirs = memory.data() + each * static_cast<std::size_t>(rank);
        if (!std::all_of(theirs, theirs + each, [&](std::byte b) { return b == static_cast<std::byte>(rank + 1); }))
          return 5;
      }
      return group.leave() ? 0 : 6;
    });
    EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks), 0)) << ranks;
  }
}

TEST(Group, ExchangesGiveEveryRankTheNumbersOfAllInRankOrderManyTimes) {
  const Ends ends = run_ranks(4, [](const RankPlace& place) {
    Group group(place, kPatient);
    for (int round = 0; round < 2000; ++round) {
      const double mine[] = {round * 10.0 + place.rank, -1.0 * round};
      double all[8];
      if (!group.exchange({mine, 2}, {all, 8})) return 1;
      for (int rank = 0; rank < 4; ++rank) {
        if (all[2 * rank] != round * 10.0 + rank || all[2 * rank + 1] != -1.0 * round) return 2;
      }
    }
    return group.leave() ? 0 : 3;
  });
  EXPECT_EQ(ends, Ends(4, 0));
}

// The first to exit may be the end of the others, who must have said by then that they leave.
TEST(Group, NobodyLeavesBeforeAllSaidThatTheyDo) {
  const Ends ends = run_ranks(2, [](const RankPlace& place) {
    Group group(place, kPatient);
    const SharedMemory memory = group.share(kPage);
    if (place.rank == 0) return !group.leave() ? 1 : memory.data()[0] == std::byte{1} ? 0 : 2;
    if (!group.barrier()) return 3;  // that of leave()
    const timespec late{0, 100'000'000};
    nanosleep(&late, nullptr);
    memory.data()[0] = std::byte{1};
    group.set_phase(RankPhase::kDone);
    return 0;
  });
  EXPECT_EQ(ends, Ends(2, 0));
}

TEST(Group, DealsTheCoresSoThatEveryRankHasOne) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int cores = CPU_COUNT(&before);
  for (const int ranks : {2, 3, 4}) {
    const Ends ends = run_ranks(ranks, [](const RankPlace& place) {
      Group group(place, kPatient);
      group.take_cores();
      cpu_set_t mine;
      sched_getaffinity(0, sizeof mine, &mine);
      return group.leave() ? CPU_COUNT(&mine) : 99;
    });
    EXPECT_GE(*std::min_element(ends.begin(), ends.end()), 1);
    if (cores >= ranks) {
      EXPECT_EQ(std::accumulate(ends.begin(), ends.end(), 0), cores);
    }
  }
}

TEST(Group, LeavesNothingBehindWhereFilesLie) {
  const auto entries = [](const char* folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.find("bascule") != std::string::npos) names.push_back(name);
    }
    return names;
  };
  const auto before = entries("/dev/shm");
  const Ends ends = run_ranks(2, [](const RankPlace& place) {
    Group group(place, kPatient);
    const SharedMemory memory = group.share(1 << 20);
    if (place.rank == 1) raise(SIGKILL);
    return group.barrier() ? 1 : 5;
  });
  EXPECT_EQ(ends, (Ends{5, -SIGKILL}));
  EXPECT_EQ(entries("/dev/shm"), before);
}

// Which large pages it has depends on the system; that it is resident, and whose bytes it holds, does not.
TEST(Group, TouchesSharedMemoryInPartsAndKeepsWhatOthersWrote) {
  constexpr std::size_t kBytes = 3 * kHugePage + kPage;
  const Ends ends = run_ranks(2, [](const RankPlace& place) {
    Group group(place, kPatient);
    const SharedMemory memory = group.share(kBytes, HugePages::kTransparent);
    if (memory.bytes() != kBytes || reinterpret_cast<std::uintptr_t>(memory.data()) % kHugePage != 0) return 1;
    if (place.rank == 1) std::fill_n(memory.data(), kBytes, std::byte{7});
    if (place.rank == 0 && touch_memory(memory.data(), kBytes, true) != 0) return 2;  // at the same time
    if (!group.barrier()) return 3;
    if (touch_memory(memory.data(), kBytes, true) != 0) return 4;
    std::vector<unsigned char> resident(kBytes / kPage);
    if (mincore(memory.data(), kBytes, resident.data()) != 0) return 5;
    if (std::any_of(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) == 0; })) return 6;
    if (std::any_of(memory.data(), memory.data() + kBytes, [](std::byte b) { return b != std::byte{7}; })) return 7;
    return group.leave() ? 0 : 8;
  });
  EXPECT_EQ(ends, (Ends{0, 0}));
}

TEST(Group, OneThatNeverComesIsAnErrorOfTheOthers) {
  const Ends ends = run_ranks(2, [](const RankPlace& place) {
    if (place.rank == 1) return 0;
    try {
      Group group(place, {1, nullptr});
    } catch (const Error& error) {
      return exit_code(error.kind());
    }
    return 1;
  });
  EXPECT_EQ(ends, (Ends{5, 0}));
}

TEST(Failure, OfAKilledRankEndsAllOthersWithCodeFive) {
  for (const int victim : {0, 1, 2}) {
    const Ends ends = run_ranks(3, [&](const RankPlace& place) {
      Group group(place, kPatient);
      if (!group.barrier()) return 1;
      if (place.rank == victim) raise(SIGKILL);
      for (;;) {  // busy outside any barrier, or in one
        if (place.rank == (victim + 1) % 3 && !group.barrier()) return 5;
      }
    });
    Ends expected(3, 5);
    expected[static_cast<std::size_t>(victim)] = -SIGKILL;
    EXPECT_EQ(ends, expected) << victim;
  }
}

TEST(Failure, OfASilentRankIsSeenAfterTheTimeoutAndItIsKilled) {
  const Ends ends = run_ranks(3, [](const RankPlace& place) {
    Group group(place, {1, nullptr});
    group.set_phase(RankPhase::kComputing, 7);
    if (place.rank == 1) raise(SIGSTOP);
    return group.barrier() ? 1 : 5;
  });
  EXPECT_EQ(ends, (Ends{5, -SIGKILL, 5}));
}

TEST(Failure, IsNotSeenInARankThatBeatsOrWaitsHoweverLong) {
  const Ends ends = run_ranks(2, [](const RankPlace& place) {
    Group group(place, {1, nullptr});
    group.set_phase(RankPhase::kComputing, 7);
    if (place.rank == 1) {
      for (int i = 0; i < 25; ++i) {
        usleep(100'000);
        group.heart().beat();
      }
    }
    return group.barrier() && group.leave() ? 0 : 1;
  });
  EXPECT_EQ(ends, Ends(2, 0));
}

TEST(Failure, IsHeardEvenIfWhoeverRecordsItIsKilledOrStoppedMeanwhile) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    ForkedRanks ranks(3, [&](const RankPlace& place) {
      Group group(place, kPatient);
      if (!group.barrier()) return 1;
      if (place.rank == 1) {
        group.control().failure.state.store(1);  // as record_failure() begins
        raise(signal);
      }
      for (;;) pause();
    });
    siginfo_t ended{};
    for (const int rank : {0, 2}) waitid(P_PID, static_cast<id_t>(ranks.process(rank)), &ended, WEXITED | WNOWAIT);
    kill(ranks.process(1), SIGKILL);
    EXPECT_EQ(ranks.wait_for_all(), (Ends{5, -SIGKILL, 5}));
  }
}

TEST(Failure, ThatARankTellsItselfGivesAllItsExitCode) {
  const Ends ends = run_ranks(3, [](const RankPlace& place) {
    Group group(place, kPatient);
    if (place.rank != 2) return group.barrier() ? 1 : 3;
    return group.give_up(3, "", "") ? 3 : 1;
  });
  EXPECT_EQ(ends, Ends(3, 3));
}

TEST(Failure, IsToldInOneLineThatSaysWhoWhereAndWhy) {
  FailureRecord failure{};
  failure.kind = FailureKind::kEnded;
  failure.rank = 3;
  failure.pid = 77;
  failure.phase = RankPhase::kComputing;
  failure.step = 12;
  failure.operation = 845;
  EXPECT_STREQ(failure_text(failure, "was killed by signal 9").text,
               "rank 3 (process 77) was killed by signal 9 during forward and backward in update 12, operation 845");
  failure.phase = RankPhase::kSaving;
  EXPECT_STREQ(failure_text(failure, nullptr).text,
               "rank 3 (process 77) exited unexpectedly (killed?) while saving a checkpoint in update 12");
  std::strcpy(failure.host, "machine1");
  EXPECT_STREQ(failure_text(failure, nullptr).text,
               "rank 3 (process 77 on machine1) exited unexpectedly (killed?) while saving a checkpoint in update 12");
  failure.rank = -1;
  EXPECT_STREQ(failure_text(failure, nullptr).text,
               "a rank exited unexpectedly (killed?) while saving a checkpoint in update 12");
  failure.kind = FailureKind::kAbsent;
  failure.rank = 2;
  EXPECT_EQ(std::string(failure_text(failure, nullptr).text).find("rank 2 on another machine did not connect within"),
            0u);
}

TEST(RankPlace, ComesFromTheLaunchersVariables) {
  EXPECT_TRUE(place_from_environment().is_alone());
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  setenv("PMIX_NAMESPACE", "17", 1);
  const RankPlace place = place_from_environment();
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_FALSE(place.is_on_one_node());
  EXPECT_EQ(place.node, 1);
  EXPECT_EQ(place.nodes, 2);
  EXPECT_EQ(place.run, "17");
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);  // not numbered one node after another
  EXPECT_THROW(place_from_environment(), Error);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  setenv("OMPI_COMM_WORLD_RANK", "4", 1);
  EXPECT_THROW(place_from_environment(), Error);
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE"})
    unsetenv(name);
}

// Started with pmi2 a rank has a variable of that, which connects no machines.
TEST(RankPlace, SaysWhetherSlurmOffersPmix) {
  const std::pair<const char*, const char*> slurm[] = {{"SLURM_JOB_ID", "7"},
                                                       {"SLURM_STEP_ID", "0"},
                                                       {"SLURM_STEP_NUM_TASKS", "2"},
                                                       {"SLURM_STEP_NUM_NODES", "2"},
                                                       {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                                       {"SLURM_PROCID", "1"},
                                                       {"SLURM_LOCALID", "0"},
                                                       {"PMI_RANK", "1"}};
  for (const auto& [name, value] : slurm) setenv(name, value, 1);
  const RankPlace of_pmi2 = place_from_environment();
  unsetenv("PMI_RANK");
  setenv("PMIX_RANK", "1", 1);
  const RankPlace of_pmix = place_from_environment();
  for (const auto& [name, value] : slurm) unsetenv(name);
  unsetenv("PMIX_RANK");
  EXPECT_EQ(of_pmi2.nodes, 2);
  EXPECT_TRUE(of_pmi2.lacks_pmix);
  EXPECT_FALSE(of_pmix.lacks_pmix);
}

TEST(Hostfile, NamesEachMachineOnceWhateverItsSlots) {
  const std::string file = ::testing::TempDir() + "hosts";
  std::ofstream(file) << "# two machines\n\n  one slots=2\ntwo # the other\none slots=1\n";
  EXPECT_EQ(machines_in(file, "distributed.hostfile"), 2);
  std::ofstream(file) << "# none\n";
  EXPECT_THROW(machines_in(file, "distributed.hostfile"), Error);
  std::remove(file.c_str());
  EXPECT_THROW(machines_in(file, "distributed.hostfile"), Error);
}

}  // namespace
}  // namespace bascule::test
