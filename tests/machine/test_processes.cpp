// SPDX-License-Identifier: Apache-2.0
#include "src/machine/process_limits.h"

#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/machine/fact_tree.h"

namespace bascule {
namespace {

class Processes : public test::FactTree {
 protected:
  // Times in ticks.
  void write_process(int number, const std::string& name, int parent, int own, int of_children) const {
    write("/proc/" + std::to_string(number) + "/stat",
          std::to_string(number) + " (" + name + ") S " + std::to_string(parent) + " 1 1 0 -1 0 0 0 0 0 " +
              std::to_string(own) + " 0 " + std::to_string(of_children) + " 0 20 0 1 0\n");
  }
  std::string busiest(double seconds = 0.1) const {
    return busiest_process(before_, read_process_times(root()), 7, seconds);
  }
  void begin() { before_ = read_process_times(root()); }

  std::vector<ProcessTime> before_;
};

TEST_F(Processes, TheBusiestIsThatWhichUsedMostMeanwhileAndNotThisOne) {
  write_process(7, "bascule", 1, 0, 0);
  write_process(20, "used before", 1, 9000, 0);
  write_process(21, "a (strange) name", 1, 100, 0);
  begin();
  EXPECT_EQ(busiest(), "");  // none used any
  write_process(7, "bascule", 1, 500, 0);
  write_process(20, "used before", 1, 9001, 0);
  write_process(21, "a (strange) name", 1, 102, 0);
  EXPECT_EQ(busiest(), "a (strange) name (process 21)");
  write_process(22, "new", 1, 3, 0);
  EXPECT_EQ(busiest(), "new (process 22)");
}

TEST_F(Processes, AKernelsThreadThatUsedATickIsNotNamed) {
  write_process(50, "kworker/0:1", 2, 70, 0);
  begin();
  write_process(50, "kworker/0:1", 2, 71, 0);
  EXPECT_EQ(busiest(60.0), "");
  write_process(50, "kworker/0:1", 2, 70 + 180, 0);  // 3 % of a core
  EXPECT_EQ(busiest(60.0), "");
  write_process(50, "stress", 2, 70 + 181, 0);
  EXPECT_EQ(busiest(60.0), "stress (process 50)");
}

TEST_F(Processes, ChildrenThatBeganAndEndedCountAsTheirParent) {
  write_process(30, "make", 1, 5, 1000);
  write_process(40, "steady", 1, 0, 0);
  begin();
  write_process(30, "make", 1, 5, 1080);
  write_process(40, "steady", 1, 50, 0);
  EXPECT_EQ(busiest(), "make (process 30)");
}

// A child that ended has handed its parent, or that one's, all the time that it ever used.
TEST_F(Processes, WhatAChildUsedBeforeDoesNotCount) {
  write_process(30, "sh", 1, 0, 0);
  write_process(31, "make", 30, 10, 40);
  write_process(32, "cc", 31, 300, 0);
  write_process(40, "steady", 1, 0, 0);
  begin();
  remove("/proc/31");
  remove("/proc/32");
  write_process(30, "sh", 1, 0, 352);
  write_process(40, "steady", 1, 3, 0);
  EXPECT_EQ(busiest(), "steady (process 40)");
  write_process(30, "sh", 1, 0, 354);
  EXPECT_EQ(busiest(), "sh (process 30)");
}

}  // namespace
}  // namespace bascule
