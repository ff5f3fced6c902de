// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/core_groups.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bascule::test {
namespace {

// A machine of two nodes whose cores Linux numbers in turn, 0 and 2 and 4 ... on the first one.
std::vector<CoreFacts> two_nodes(std::int64_t count) {
  std::vector<CoreFacts> cores;
  for (std::int64_t core = 0; core < count; ++core) {
    CoreFacts facts;
    facts.number = core;
    facts.node = core % 2;
    cores.push_back(facts);
  }
  return cores;
}

CacheFacts cache(std::int64_t level, const std::string& cores) {
  CacheFacts facts;
  facts.level = level;
  facts.cores = cores;
  return facts;
}

std::vector<std::int64_t> first_cores(std::int64_t count) {
  std::vector<std::int64_t> cores;
  for (std::int64_t core = 0; core < count; ++core) cores.push_back(core);
  return cores;
}

TEST(CoreGroups, LieOnOneNodeAndShareACache) {
  const std::vector<CacheFacts> caches = {cache(2, "0"), cache(3, "0,2"), cache(3, "4,6"), cache(3, "1,3,5,7")};
  const CoreGroups groups = groups_of_cores(8, first_cores(8), two_nodes(8), caches);
  EXPECT_EQ(groups.cores, (std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(groups.sizes, (std::vector<int>{2, 2, 4}));
}

TEST(CoreGroups, TakeNoMoreThanTheAllowedCoresAndTheThreads) {
  const std::vector<CacheFacts> caches = {cache(3, "0-7")};
  const CoreGroups groups = groups_of_cores(3, {1, 2, 4, 6, 7}, two_nodes(8), caches);
  EXPECT_EQ(groups.cores, (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(groups.sizes, (std::vector<int>{3}));
}

// As virtual machines state it.
TEST(CoreGroups, AreNotMadeOfCachesOfOneCoreEach) {
  const CoreGroups groups = groups_of_cores(4, first_cores(4), {}, {cache(3, "0"), cache(3, "1"), cache(3, "2-2")});
  EXPECT_EQ(groups.cores, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(groups.sizes, (std::vector<int>{4}));
}

TEST(CoreGroups, AreCutWhereMoreThanAFewShareACache) {
  const CoreGroups groups = groups_of_cores(36, first_cores(36), {}, {cache(3, "0-35")});
  EXPECT_EQ(groups.sizes, (std::vector<int>{12, 12, 12}));
  EXPECT_EQ(groups_anywhere(33).sizes, (std::vector<int>{11, 11, 11}));
  EXPECT_TRUE(groups_anywhere(33).cores.empty());
  EXPECT_EQ(groups_anywhere(16).sizes, (std::vector<int>{16}));
}

TEST(CoreGroups, AreWorkersEach) {
  const std::vector<CacheFacts> caches = {cache(3, "0-3"), cache(3, "4-5")};
  const std::vector<CoreGroups> workers = groups_of_workers(groups_of_cores(6, first_cores(6), {}, caches), 0);
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers[0].cores, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(workers[1].cores, (std::vector<int>{4, 5}));
  EXPECT_EQ(workers[0].sizes, (std::vector<int>{4}));
  EXPECT_EQ(workers[1].sizes, (std::vector<int>{2}));
}

// A share of several groups keeps them: its threads still deal tasks by cache.
TEST(CoreGroups, AreSharedOutEquallyAmongWorkers) {
  const std::vector<CacheFacts> caches = {cache(3, "0-3"), cache(3, "4-5"), cache(3, "6-7")};
  const CoreGroups groups = groups_of_cores(8, first_cores(8), {}, caches);
  const std::vector<CoreGroups> two = groups_of_workers(groups, 2), four = groups_of_workers(groups, 4);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].cores, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(two[0].sizes, (std::vector<int>{4}));
  EXPECT_EQ(two[1].sizes, (std::vector<int>{2, 2}));
  ASSERT_EQ(four.size(), 4u);
  EXPECT_EQ(four[1].cores, (std::vector<int>{2, 3}));
  for (const CoreGroups& worker : four) EXPECT_EQ(threads_of(worker), 2);
  EXPECT_TRUE(groups_of_workers(groups_anywhere(32), 0)[1].cores.empty());
}

}  // namespace
}  // namespace bascule::test
