// SPDX-License-Identifier: Apache-2.0
#include "src/plan/memory_plan.h"

#include <gtest/gtest.h>

#include "src/base/span.h"

namespace bascule::test {
namespace {

MemoryPlan some_plan() {
  MemoryPlan plan = make_memory_plan({{"parameters", 5000}, {"workspace", 100000}, {"nothing", 0}, {"ring", 1}}, 3000);
  plan.workspace_lower_bound_bytes = 90000;
  return plan;
}

TEST(MemoryPlan, CategoriesFollowOneAnotherOnPageBounds) {
  const MemoryPlan plan = some_plan();
  std::size_t end = 0;
  for (const PlannedRange& category : plan.categories) {
    EXPECT_EQ(category.offset % kPage, 0u) << category.name;
    EXPECT_GE(category.offset, end) << category.name;
    EXPECT_LT(category.offset, end + kPage) << category.name;
    end = category.offset + category.bytes;
  }
  EXPECT_EQ(plan.arena_bytes, align_up(end, kPage));
  EXPECT_EQ(plan.peak_bytes(), plan.arena_bytes + 3000);
}

TEST(MemoryPlan, WhatRanksShareIsCountedOnceAndLiesApart) {
  MemoryPlan plan = make_memory_plan(
      {{"parameters", 3 * kPage, true}, {"workspace", kPage}, {"gradients", 2 * kPage, true}}, 100, 10, 4);
  plan.program_bytes = 1000;
  EXPECT_EQ(plan.arena_bytes, kPage);
  EXPECT_EQ(plan.shared_bytes, 5 * kPage);
  EXPECT_EQ(plan["gradients"].offset, 3 * kPage);
  EXPECT_EQ(plan["workspace"].offset, 0u);
  EXPECT_EQ(plan.peak_bytes(), 5 * kPage + 4 * (kPage + 100 + 10) + 1000);
}

TEST(MemoryPlan, TheLowerBoundCountsTheWorkspaceAtItsBound) {
  EXPECT_EQ(some_plan().lower_bound_bytes(), 5000u + 90000u + 1u + 3000u);
  MemoryPlan plan = make_memory_plan({{"parameters", 3 * kPage, true}, {"workspace", kPage}}, 100, 10, 4);
  plan.workspace_lower_bound_bytes = 50;
  plan.program_bytes = 1000;
  EXPECT_EQ(plan.lower_bound_bytes(), 3 * kPage + 4 * (50 + 100 + 10) + 1000) << "of four ranks";
}

TEST(MemoryPlan, PrintsEveryCategoryAndTheSum) {
  const std::string text = print_memory_plan(some_plan());
  for (const char* word :
       {"parameters", "workspace", "ring", "program and libraries", "total", "lower bound", "MiB", "%"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
}

TEST(MemoryPlan, PrintsTheProgramWithTheShareOfEachRank) {
  MemoryPlan plan = make_memory_plan({{"workspace", kPage}}, std::size_t{1} << 20, 0, 4);
  plan.program_bytes = std::size_t{2} << 20;
  const std::string text = print_memory_plan(plan);
  EXPECT_NE(text.find("program and libraries" + std::string(16, ' ') + "6.00 MiB"), std::string::npos) << text;
}

TEST(MemoryPlanDeathTest, AnUnknownCategoryEndsTheProgram) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const MemoryPlan plan = some_plan();
  EXPECT_EQ(plan["ring"].bytes, 1u);
  EXPECT_DEATH(static_cast<void>(plan["rings"]), "memory_plan.cpp");
}

}  // namespace
}  // namespace bascule::test
