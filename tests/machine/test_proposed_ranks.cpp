// SPDX-License-Identifier: Apache-2.0
#include "src/machine/machine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/machine/fact_tree.h"

namespace bascule {
namespace {

class ProposedRanksOf : public test::FactTree {
 protected:
  // cores: of the node, by their list, "" for memory alone; distances: to all nodes.
  void add_node(int number, const std::string& cores, const std::string& distances) const {
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(number);
    write(folder + "/cpulist", cores + "\n");
    write(folder + "/distance", distances + "\n");
    write(folder + "/meminfo", "Node " + std::to_string(number) + " MemTotal:       263783424 kB\n");
    for (const std::int64_t core : numbers_of_list(cores))
      write("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/node" + std::to_string(number) + "/cpulist", "");
  }
  // Two sockets of Intel's, whose cores Linux numbers in turn.
  void make_two_sockets() const {
    add_node(0, "0,2,4,6", "10 21");
    add_node(1, "1,3,5,7", "21 10");
  }
  // One socket of AMD's in four parts (NPS4).
  void make_four_parts() const {
    for (int part = 0; part < 4; ++part) {
      std::string distances;
      for (int other = 0; other < 4; ++other) distances += other == part ? "10 " : "12 ";
      add_node(part, std::to_string(4 * part) + "-" + std::to_string(4 * part + 3), distances);
    }
  }
  ProposedRanks proposed(const std::vector<std::int64_t>& cores, std::int64_t threads = 0) const {
    return propose_ranks(read_nodes(root()), cores, threads);
  }
  static std::vector<std::int64_t> first_cores(std::size_t count) {
    std::vector<std::int64_t> cores(count);
    std::iota(cores.begin(), cores.end(), 0);
    return cores;
  }
};

TEST_F(ProposedRanksOf, TwoSocketsAreTwo) {
  make_two_sockets();
  EXPECT_EQ(proposed(first_cores(8)).ranks, 2);
  EXPECT_EQ(proposed(first_cores(8)).reason, "one for each memory node, whose cores then use its memory");
  const std::vector<NodeFacts> nodes = read_nodes(root());
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[1].distances, "21 10");
  EXPECT_EQ(nodes[1].memory_bytes, std::int64_t{263783424} * 1024);
}

TEST_F(ProposedRanksOf, FourPartsOfASocketAreFour) {
  make_four_parts();
  EXPECT_EQ(proposed(first_cores(16)).ranks, 4);
}

TEST_F(ProposedRanksOf, NodesWhoseCoresAreAllOfflineDoNotCount) {
  make_two_sockets();
  write("/sys/devices/system/node/node1/cpulist", "\n");
  for (const char* core : {"1", "3", "5", "7"})
    write(std::string("/sys/devices/system/cpu/cpu") + core + "/online", "0\n");
  EXPECT_EQ(read_cores(root()).size(), 4u);
  EXPECT_EQ(proposed({0, 2, 4, 6}).ranks, 1);
  EXPECT_EQ(proposed({0, 2, 4, 6}).reason, "one memory node has all cores of this machine");
}

TEST_F(ProposedRanksOf, ACpusetOfOneNodeIsOne) {
  make_four_parts();
  EXPECT_EQ(proposed({4, 5, 6, 7}).ranks, 1);
  EXPECT_EQ(proposed({4, 5, 6, 7}).reason, "the cores that may be used here are of one memory node");
  EXPECT_EQ(proposed({3, 4}).ranks, 2);
}

TEST_F(ProposedRanksOf, MemoryWithoutCoresGetsNone) {
  make_two_sockets();
  add_node(2, "", "14 24 10");  // behind CXL
  EXPECT_EQ(proposed(first_cores(8)).ranks, 2);
  EXPECT_EQ(proposed({0, 2}).ranks, 1);
  EXPECT_EQ(proposed({0, 2}).reason, "the cores that may be used here are of one memory node");
  remove("/sys/devices/system/node/node1");
  EXPECT_EQ(proposed({0, 2}).reason, "one memory node has all cores of this machine");
  remove("/sys/devices/system/node/node2");
  EXPECT_EQ(proposed({0, 2}).reason, "this machine has one memory node");
}

TEST_F(ProposedRanksOf, FewThreadsNeedNoSecondNode) {
  make_two_sockets();
  EXPECT_EQ(proposed(first_cores(8), 4).ranks, 1);
  EXPECT_EQ(proposed(first_cores(8), 4).reason, "one memory node has cores for all threads");
  EXPECT_EQ(proposed(first_cores(8), 5).ranks, 2);
}

TEST_F(ProposedRanksOf, AMachineThatSaysNothingIsOne) {
  EXPECT_EQ(proposed(first_cores(8)).ranks, 1);
  EXPECT_EQ(proposed(first_cores(8)).reason, "the system does not say which cores have which memory");
}

}  // namespace
}  // namespace bascule
