// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "src/distributed/group.h"

namespace bascule {
namespace {

cpu_set_t set_of(const std::vector<int>& numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int number : numbers) CPU_SET(number, &set);
  return set;
}

std::vector<int> numbers_of(const cpu_set_t& set) {
  std::vector<int> numbers;
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (CPU_ISSET(number, &set)) numbers.push_back(number);
  }
  return numbers;
}

TEST(Cores, ThreadsOfACoreAndCoresOfAPackageStayTogetherHoweverLinuxNumbersThem) {
  // Two packages of two cores of two threads; first threads are 0 to 3, second ones 4 to 7.
  setenv("HWLOC_SYNTHETIC", "package:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)", 1);
  const std::vector<Processor> order = processors_by_neighbourhood();
  unsetenv("HWLOC_SYNTHETIC");
  const cpu_set_t all = set_of({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(numbers_of(part_of_processors(order, all, 0, 2)), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(numbers_of(part_of_processors(order, all, 1, 2)), (std::vector<int>{2, 3, 6, 7}));
  EXPECT_EQ(numbers_of(part_of_processors(order, all, 3, 4)), (std::vector<int>{3, 7}));
}

TEST(Cores, AreDealtWholeWhereThereAreAsManyAsRanks) {
  setenv("HWLOC_SYNTHETIC", "core:4 pu:2", 1);
  const std::vector<Processor> order = processors_by_neighbourhood();
  unsetenv("HWLOC_SYNTHETIC");
  const cpu_set_t all = set_of({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(numbers_of(part_of_processors(order, all, 0, 3)), (std::vector<int>{0, 1}));
  EXPECT_EQ(numbers_of(part_of_processors(order, all, 1, 3)), (std::vector<int>{2, 3}));
  EXPECT_EQ(numbers_of(part_of_processors(order, all, 2, 3)), (std::vector<int>{4, 5, 6, 7}));
  // Threads are shared out where ranks are more than cores.
  EXPECT_EQ(numbers_of(part_of_processors(order, all, 4, 6)), (std::vector<int>{5}));
  EXPECT_EQ(numbers_of(part_of_processors(order, set_of({0, 1, 2}), 0, 3)), (std::vector<int>{0}));
  EXPECT_EQ(numbers_of(part_of_processors(order, set_of({0, 1, 2}), 1, 2)), (std::vector<int>{2}));
}

TEST(Cores, PartsCoverWhatIsAllowedOnceAndAreSharedOnlyWhereThereAreTooFew) {
  setenv("HWLOC_SYNTHETIC", "core:65 pu:1", 1);
  const std::vector<Processor> order = processors_by_neighbourhood();
  unsetenv("HWLOC_SYNTHETIC");
  const cpu_set_t allowed = set_of({1, 2, 5, 9, 64});
  for (int ranks = 1; ranks <= 5; ++ranks) {
    cpu_set_t seen = set_of({});
    for (int rank = 0; rank < ranks; ++rank) {
      const cpu_set_t part = part_of_processors(order, allowed, rank, ranks);
      EXPECT_GE(CPU_COUNT(&part), 5 / ranks);
      cpu_set_t both;
      CPU_AND(&both, &seen, &part);
      EXPECT_EQ(CPU_COUNT(&both), 0);
      CPU_OR(&seen, &seen, &part);
    }
    EXPECT_TRUE(CPU_EQUAL(&seen, &allowed));
  }
  for (int rank = 0; rank < 12; ++rank) {
    const cpu_set_t part = part_of_processors(order, allowed, rank, 12);
    EXPECT_EQ(CPU_COUNT(&part), 1);
  }
}

}  // namespace
}  // namespace bascule
