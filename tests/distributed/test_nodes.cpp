// SPDX-License-Identifier: Apache-2.0
// A group on several nodes, all of them on this machine: every BASCULE_LOCAL_SIZE processes are one. Run by mpirun, see
// meson.build.
#include <gtest/gtest.h>
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "src/distributed/group.h"
#include "src/distributed/nodes.h"
#include "tests/distributed/place_on_nodes.h"

namespace bascule::test {
namespace {

std::unique_ptr<Group> group;  // MPI starts once in a process

class WholeProcess : public ::testing::Environment {
 public:
  void SetUp() override {
    group = std::make_unique<Group>(place_on_nodes(std::atoi(std::getenv("BASCULE_LOCAL_SIZE"))),
                                    GroupOptions{20, nullptr});
  }
  void TearDown() override {
    const bool has_left = group->leave();
    EXPECT_TRUE(has_left);
  }
};

const auto* const whole_process = ::testing::AddGlobalTestEnvironment(new WholeProcess);

double seconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(Nodes, TheLibraryBetweenThemHasAName) { EXPECT_EQ(mpi_version().find("Open MPI v"), 0u); }

TEST(GroupOnNodes, KnowsItsPlaceAndItsLane) {
  EXPECT_EQ(group->size(), group->nodes() * group->local_size());
  EXPECT_EQ(group->is_leader(), group->local_rank() == 0);
  int in_lane = -1, lane_size = 0;
  MPI_Comm_rank(group->between_nodes()->lane(), &in_lane);
  MPI_Comm_size(group->between_nodes()->lane(), &lane_size);
  EXPECT_EQ(in_lane, group->node());
  EXPECT_EQ(lane_size, group->nodes());
}

TEST(GroupOnNodes, ExchangesTheNumbersOfAllRanksInRankOrder) {
  for (int turn = 0; turn < 200; ++turn) {
    const std::size_t count = 1 + static_cast<std::size_t>(turn) % kExchanged;
    std::vector<double> mine(count), all(count * static_cast<std::size_t>(group->size()));
    const auto number = [&](int rank, std::size_t i) { return turn + 1000.0 * rank + 0.125 * static_cast<double>(i); };
    for (std::size_t i = 0; i < count; ++i) mine[i] = number(group->rank(), i);
    ASSERT_TRUE(group->exchange(Span<const double>(mine), Span<double>(all)));
    for (int rank = 0; rank < group->size(); ++rank) {
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(all[static_cast<std::size_t>(rank) * count + i], number(rank, i));
    }
  }
}

TEST(GroupOnNodes, NobodyPassesABarrierBeforeTheLastHasCome) {
  for (int late = 0; late < group->size(); ++late) {
    const timespec pause{0, group->rank() == late ? 30'000'000 : 0};
    nanosleep(&pause, nullptr);
    const double came = seconds();
    ASSERT_TRUE(group->barrier());
    const double passed = seconds();
    std::vector<double> all(2 * static_cast<std::size_t>(group->size()));
    const double mine[] = {came, passed};
    ASSERT_TRUE(group->exchange({mine, 2}, Span<double>(all)));
    for (std::size_t i = 0; i < all.size(); i += 2) EXPECT_LE(all[i], passed);
  }
}

// The byte that one node alone writes at a place; it differs from its neighbours.
std::byte byte_at(std::size_t at) { return static_cast<std::byte>(1 + at % 251); }

TEST(GroupOnNodes, CombinesWhatEachNodeWroteOnNode0) {
  const std::size_t bytes = 2'500'003;  // several chunks and a rest
  const SharedMemory memory = group->share(bytes);
  const std::size_t ranks = static_cast<std::size_t>(group->size());
  for (std::size_t at = static_cast<std::size_t>(group->rank()); at < bytes; at += ranks)
    memory.data()[at] = byte_at(at);
  ASSERT_TRUE(group->combine({memory.data(), bytes}));
  if (group->node() != 0) return;
  for (std::size_t at = 0; at < bytes; ++at) ASSERT_EQ(memory.data()[at], byte_at(at)) << at;
}

TEST(GroupOnNodes, GathersPartsOfAnyLengthOnAllNodes) {
  const std::size_t nodes = static_cast<std::size_t>(group->nodes()), node = static_cast<std::size_t>(group->node());
  const SharedMemory memory = group->share(100'000);
  for (std::size_t turn = 0; turn < 5; ++turn) {
    // Node n writes 7 + turn bytes n times, in the last turn the first node all of it.
    const auto end_of = [&](std::size_t n) { return turn == 4 ? std::size_t{90'000} : (n + 1) * n / 2 * (7 + turn); };
    const std::size_t begin = node == 0 ? 0 : end_of(node - 1), end = end_of(node);
    if (group->is_leader()) {
      std::fill_n(memory.data(), memory.bytes(), std::byte{0});
      for (std::size_t at = begin; at < end; ++at) memory.data()[at] = byte_at(at + turn);
    }
    ASSERT_TRUE(group->gather_parts({memory.data(), memory.bytes()}, begin, end));
    for (std::size_t at = 0; at < end_of(nodes - 1); ++at) ASSERT_EQ(memory.data()[at], byte_at(at + turn)) << at;
    ASSERT_TRUE(group->local_barrier());
  }
}

}  // namespace
}  // namespace bascule::test
