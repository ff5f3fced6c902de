// SPDX-License-Identifier: Apache-2.0
#include "src/base/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "src/base/descriptor.h"
#include "src/base/span.h"

namespace bascule {
namespace {

constexpr int kPopulateWrite = 23, kCollapse = 25;  // of <linux/mman.h>; newer than the headers that we build with

// Addresses from a large page's bound on, without advice on large pages.
struct Addresses {
  Addresses(std::size_t bytes, int access) : size(bytes + kHugePage) {
    all = mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    auto* const first = static_cast<std::byte*>(all);
    begin = first + (kHugePage - reinterpret_cast<std::uintptr_t>(first) % kHugePage) % kHugePage;
  }
  ~Addresses() { munmap(all, size); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  std::size_t size;
  void* all;
  std::byte* begin;
};

// What the system says of the mapping that begins at or before this byte and reaches beyond it.
std::string said_of(const std::byte* byte, const std::string& key) {
  std::ifstream file("/proc/self/smaps");
  const auto at = reinterpret_cast<std::uintptr_t>(byte);
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') is_inside = begin <= at && at < end;
    if (is_inside && line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  ADD_FAILURE() << "nothing is said of " << key;
  return "-1";
}

std::int64_t large_kib(const std::byte* byte) { return std::stoll(said_of(byte, "AnonHugePages:")); }

bool forms_large_pages() {
  const Addresses memory(kHugePage, PROT_READ | PROT_WRITE);
  *memory.begin = std::byte{1};
  return madvise(memory.begin, kHugePage, kCollapse) == 0;
}

bool is_always_large() {
  std::string line;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), line);
  return line.find("[always]") != std::string::npos;
}

TEST(MappedMemory, TouchingNothingTouchesNoPage) {
  const Addresses closed(kPage, PROT_NONE);
  EXPECT_EQ(touch_memory(closed.begin, 0, false), 0);
  EXPECT_EQ(touch_memory(closed.begin + 1, 0, true), 0);
}

// The small page from which a large one would be formed may lie behind it.
TEST(MappedMemory, NoPageBehindTheMemoryIsTouched) {
  const Addresses closed(kHugePage, PROT_NONE);
  ASSERT_EQ(mprotect(closed.begin, kPage, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(touch_memory(closed.begin, kPage, true), 0);
}

TEST(MappedMemory, MemoryThatTheSystemDoesNotHaveIsRefusedBeforeItIsUsed) {
  const Addresses own(kPage, PROT_READ | PROT_WRITE);
  if (madvise(own.begin, kPage, kPopulateWrite) != 0) GTEST_SKIP() << "this system would end the process";
  const Descriptor file(memfd_create("short", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.number(), kPage), 0);
  std::byte* const memory = map_memory(2 * kPage, HugePages::kOff, file.number());
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(touch_memory(memory, kPage, false), 0);
  EXPECT_EQ(touch_memory(memory, 2 * kPage, false), EFAULT) << "the file has one page";
  munmap(memory, 2 * kPage);
}

// Where the system forms large pages only on advice, none are formed without.
TEST(MappedMemory, LargePagesAreFormedWhereTheCallerAsksForThem) {
  constexpr std::size_t kBytes = 4 * kHugePage;
  const auto large_kib_of = [](bool collapse) {
    const Addresses memory(kBytes, PROT_READ | PROT_WRITE);
    EXPECT_EQ(touch_memory(memory.begin, kBytes, collapse), 0);
    return large_kib(memory.begin);
  };
  if (!forms_large_pages()) GTEST_SKIP() << "this system has none to form";
  if (is_always_large()) GTEST_SKIP() << "this system forms them without being asked";
  const std::int64_t before = large_kib_of(false);
  std::int64_t after = large_kib_of(true);
  // While it moves pages, as where others free and touch much, the system refuses for a while.
  for (int attempt = 0; attempt < 100 && after <= before; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    after = large_kib_of(true);
  }
  EXPECT_GT(after, before) << "they may have neighbours with large pages";
}

TEST(MappedMemory, TheSystemIsAdvisedOnLargePages) {
  const Addresses own(kPage, PROT_READ | PROT_WRITE);
  if (madvise(own.begin, kPage, MADV_HUGEPAGE) != 0) GTEST_SKIP() << "this system has none to form";
  for (const auto& [pages, advice] : {std::pair{HugePages::kTransparent, " hg"}, {HugePages::kOff, " nh"}}) {
    std::byte* const memory = map_memory(kPage, pages);
    ASSERT_NE(memory, nullptr);
    EXPECT_NE(said_of(memory, "VmFlags:").find(advice), std::string::npos) << advice;
    munmap(memory, kPage);
  }
}

// Between addresses without advice, so that no neighbour is counted. Now and then the system forms a large page at
// once.
TEST(MappedMemory, SmallPagesAreTouchedWhereLargeOnesMayBeFormedLater) {
  std::int64_t large = -1;
  for (int attempt = 0; attempt < 3 && large != 0; ++attempt) {
    const Addresses memory(3 * kHugePage, PROT_READ | PROT_WRITE);
    std::byte* const begin = memory.begin + kHugePage;
    if (madvise(begin, kHugePage, MADV_HUGEPAGE) != 0) GTEST_SKIP() << "this system has none to form";
    EXPECT_EQ(touch_small_pages(begin, kHugePage), 0);
    large = large_kib(begin);
    EXPECT_NE(said_of(begin, "VmFlags:").find(" hg"), std::string::npos);
  }
  EXPECT_EQ(large, 0);
}

}  // namespace
}  // namespace bascule
