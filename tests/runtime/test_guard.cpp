// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace bascule::test {
namespace {

// Writes to this are not optimised away.
void* volatile sink = nullptr;

class GuardDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!guard_is_active()) GTEST_SKIP() << "a sanitizer's allocator is in place";
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

constexpr char kRefusal[] = "bytes allocated after the seal by .*addr2line -Cfe .* 0x";

void allocate_with_new() {
  seal_memory();
  sink = new int[100];
}

void allocate_with_malloc() {
  seal_memory();
  sink = std::malloc(100);
}

void allocate_with_calloc() {
  seal_memory();
  sink = std::calloc(10, 10);
}

void grow_a_vector(std::vector<int>* vector) {
  seal_memory();
  vector->resize(vector->capacity() + 1);
}

void print_into_a_string() {
  std::ostringstream text;
  seal_memory();
  text << std::string_view(
      "a line that is longer than any buffer within a string stream, so that one has to be made for it");
}

TEST_F(GuardDeathTest, AnAllocationOfOursAfterTheSealEndsTheProgramAndNamesThePlace) {
  EXPECT_DEATH(allocate_with_new(), std::string("400 ") + kRefusal);
  EXPECT_DEATH(allocate_with_malloc(), std::string("100 ") + kRefusal);
  EXPECT_DEATH(allocate_with_calloc(), std::string("100 ") + kRefusal);
}

TEST_F(GuardDeathTest, WhatTheStandardLibraryAllocatesForUsIsOurs) {
  std::vector<int> vector(3);
  EXPECT_DEATH(grow_a_vector(&vector), kRefusal);
  EXPECT_DEATH(print_into_a_string(), kRefusal);
}

void allocate_on_another_thread() {
  std::atomic<bool> sealed{false};
  std::thread worker([&] {
    while (!sealed.load()) std::this_thread::yield();
    sink = new int[100];
  });
  seal_memory();
  sealed.store(true);
  worker.join();
}

TEST_F(GuardDeathTest, AnotherThreadIsHeldToItAsWell) { EXPECT_DEATH(allocate_on_another_thread(), kRefusal); }

TEST(Guard, WhatLibrariesAllocateIsLetThroughAndCountedByName) {
  if (!guard_is_active()) GTEST_SKIP() << "a sanitizer's allocator is in place";
  char* (*volatile duplicate)(const char*) = strdup;  // clang leaves out a pair of strdup and free that it sees
  ForeignAllocations before[64], after[64];
  seal_memory();
  EXPECT_TRUE(is_sealed());
  const std::size_t known = foreign_allocations(before, 64);
  char* const copy = duplicate("twelve bytes");  // the C library allocates
  const std::size_t count = foreign_allocations(after, 64);
  open_memory();
  std::uint64_t calls = 0, bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::strncmp(after[i].library, "libc.so", 7) == 0) calls += after[i].calls, bytes += after[i].bytes;
  }
  for (std::size_t i = 0; i < known; ++i) {
    if (std::strncmp(before[i].library, "libc.so", 7) == 0) calls -= before[i].calls, bytes -= before[i].bytes;
  }
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(bytes, 13u);
  std::free(copy);
}

TEST(Guard, WithTheDoorOpenNothingIsRefusedOrCounted) {
  ForeignAllocations before[64], after[64];
  seal_memory();
  open_memory();
  EXPECT_FALSE(is_sealed());
  const std::size_t known = foreign_allocations(before, 64);
  sink = new int[100];
  delete[] static_cast<int*>(sink);
  std::free(strdup("text"));
  const std::size_t count = foreign_allocations(after, 64);
  ASSERT_EQ(count, known);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(after[i].calls, before[i].calls);
}

TEST(Guard, FreeingIsAllowedAfterTheSeal) {
  auto memory = std::make_unique<std::vector<int>>(1000);
  seal_memory();
  memory.reset();
  open_memory();
}

}  // namespace
}  // namespace bascule::test
