// SPDX-License-Identifier: Apache-2.0
#include "src/finish/contracts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace bascule::test::test_planned_memory {
namespace {

// Sizes are whole pages, so that the plan's own sum has no gaps in it.
constexpr std::size_t kMib = std::size_t{1} << 20;

TEST(PlannedMemory, IsThatOfAllRanksAndWhatTheyShareOnce) {
  const std::vector<PlannedRange> ranges = {{"weights", 5 * kMib, true}, {"activations", 7 * kMib, false}};
  for (const std::size_t ranks : {1U, 3U}) {
    MemoryPlan plan = make_memory_plan(ranges, 11 * kMib, 13 * kMib, ranks);
    plan.program_bytes = 17 * kMib;
    const std::vector<MemoryCategory> memory = planned_memory(plan);
    ASSERT_EQ(memory.size(), 4u);
    std::uint64_t sum = 0;
    for (const MemoryCategory& category : memory) sum += category.bytes;
    EXPECT_EQ(sum, plan.peak_bytes());
    EXPECT_EQ(memory[0].bytes, 5 * kMib);
    EXPECT_EQ(memory[1].bytes, ranks * 7 * kMib);
    EXPECT_EQ(memory[3].bytes, (17 + ranks * 11) * kMib);
    EXPECT_EQ(memory[0].note, "");
    EXPECT_EQ(memory[1].note, ranks == 1 ? "" : "3 ranks together");
  }
}

}  // namespace
}  // namespace bascule::test::test_planned_memory
