// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/runtime/guard.h"
#include "src/runtime/start_work.h"
#include "tests/support/files.h"

namespace bascule::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(Arena, IsZeroAlignedAndCutByThePlansOffsets) {
  const MemoryPlan plan = make_memory_plan({{"a", 5000}, {"b", 3 * kMiB}, {"c", 1}}, 0);
  const Arena arena(plan, HugePages::kTransparent);
  for (const PlannedRange& category : plan.categories) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.at(category)) % kPage, 0u) << category.name;
    EXPECT_EQ(arena.at(category), arena.at(plan["a"]) + category.offset);
    const std::byte* bytes = arena.at(category);
    EXPECT_TRUE(std::all_of(bytes, bytes + category.bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
  std::fill_n(arena.as<float>(plan["b"]), 3 * kMiB / sizeof(float), 1.0f);
  EXPECT_EQ(*arena.as<unsigned char>(plan["c"]), 0);
}

void touch(const Arena& arena) {
  Threads threads(2, false);
  StartWork work;
  work.touch(arena.memory(), arena.huge_pages(), false);
  work.run(threads);
}

TEST(Arena, EveryPageIsResidentBeforeTheFirstStep) {
  const MemoryPlan plan = make_memory_plan({{"all", 65 * kMiB + kPage}}, 0);
  const Arena arena(plan, HugePages::kTransparent);
  touch(arena);
  std::vector<unsigned char> resident(plan.arena_bytes / kPage);
  ASSERT_EQ(mincore(arena.at(plan["all"]), plan.arena_bytes, resident.data()), 0);
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }),
            static_cast<std::ptrdiff_t>(resident.size()));
}

TEST(Arena, RefusesWhatTheSystemDoesNotGive) {
  const MemoryPlan plan = make_memory_plan({{"all", std::size_t{1} << 60}}, 0);
  EXPECT_TRUE(test::fails([&] { const Arena arena(plan, HugePages::kTransparent); }, "MiB", ErrorKind::kMemory));
}

bool forms_huge_pages() {
  char text[128];
  return read_small_file("/sys/kernel/mm/transparent_hugepage/enabled", text) &&
         std::string(text).find("[never]") == std::string::npos && huge_page_bytes().anonymous < kMiB;
}

TEST(Arena, LargePagesHoldAllButTheEndAndTakeNoMoreMemory) {
  if (!forms_huge_pages()) GTEST_SKIP() << "no transparent huge pages here, or others have them";
  const MemoryPlan plan = make_memory_plan({{"all", 65 * kMiB + kPage}}, 0);
  const Arena arena(plan, HugePages::kTransparent);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.memory().data()) % kHugePage, 0u);
  ASSERT_EQ(touch_memory(arena.memory().data(), arena.memory().size(), false), 0);
  EXPECT_EQ(huge_page_bytes().anonymous, 64 * kMiB);
  EXPECT_EQ(arena.memory().size(), plan.arena_bytes);
}

TEST(Arena, MayBeTouchedInSmallPages) {
  const MemoryPlan plan = make_memory_plan({{"all", 16 * kMiB}}, 0);
  const std::size_t before = huge_page_bytes().anonymous;
  const Arena arena(plan, HugePages::kTransparent);
  ASSERT_EQ(touch_small_pages(arena.memory().data(), arena.memory().size()), 0);
  EXPECT_EQ(huge_page_bytes().anonymous, before);
}

// Zeroing a GiB takes 0.3 s, or 4 s on a host that has to find the memory.
TEST(PagePace, TakesSmallPagesWhileLargeOnesAreMuchSlower) {
  constexpr std::int64_t kQuick = 300'000'000, kSlow = 4'000'000'000;
  PagePace pace;
  EXPECT_TRUE(pace.prefers_large());
  pace.note(true, 1024 * kMiB, kQuick);
  EXPECT_TRUE(pace.prefers_large());
  pace.note(true, 1024 * kMiB, kSlow);
  EXPECT_FALSE(pace.prefers_large());  // small ones may be quicker
  pace.note(false, 1024 * kMiB, 2 * kQuick);
  EXPECT_FALSE(pace.prefers_large());  // they are
  pace.note(false, 1024 * kMiB, kSlow);
  EXPECT_TRUE(pace.prefers_large());  // they are no more
}

TEST(Arena, UsesSmallPagesWhereThatIsAskedFor) {
  const MemoryPlan plan = make_memory_plan({{"all", 16 * kMiB}}, 0);
  const std::size_t before = huge_page_bytes().anonymous;
  const Arena arena(plan, HugePages::kOff);
  touch(arena);
  EXPECT_EQ(huge_page_bytes().anonymous, before);
}

TEST(Arena, OfReservedPagesUsesTransparentOnesWhereThePoolIsTooSmall) {
  const MemoryPlan plan = make_memory_plan({{"all", 1024 * kMiB}}, 0);  // never touched
  const Arena arena(plan, HugePages::kReserved);
  if (arena.huge_pages() == HugePages::kReserved) GTEST_SKIP() << "the pool is larger (vm.nr_hugepages)";
  EXPECT_EQ(arena.huge_pages(), HugePages::kTransparent);
  EXPECT_EQ(arena.memory().size(), plan.arena_bytes);
}

TEST(Arena, OfReservedPagesIsWholePagesOfThePool) {
  const MemoryPlan plan = make_memory_plan({{"all", 3 * kMiB}}, 0);
  const std::size_t before = resident_bytes();
  const Arena arena(plan, HugePages::kReserved);
  if (arena.huge_pages() != HugePages::kReserved) GTEST_SKIP() << "no reserved pages (vm.nr_hugepages)";
  touch(arena);
  EXPECT_EQ(arena.memory().size(), 4 * kMiB);
  EXPECT_GE(huge_page_bytes().anonymous, 4 * kMiB);
  EXPECT_GE(resident_bytes(), before + 3 * kMiB);
}

TEST(ResidentBytes, GrowByTheArena) {
  const std::size_t before = resident_bytes();
  if (before == 0) GTEST_SKIP() << "the kernel does not say (no smaps_rollup)";
  const MemoryPlan plan = make_memory_plan({{"all", 64 * kMiB}}, 0);
  const Arena arena(plan, HugePages::kTransparent);
  touch(arena);
  const double grown = static_cast<double>(resident_bytes()) - static_cast<double>(before);
  // Library pages count by share: other processes that begin or end meanwhile move the figure by some MiB.
  EXPECT_GE(grown, 56.0 * kMiB);
  if (guard_is_active()) {
    EXPECT_LE(grown, 72.0 * kMiB);  // sanitizers keep shadows of their own
  }
}

}  // namespace
}  // namespace bascule::test
