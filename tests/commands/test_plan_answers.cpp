// SPDX-License-Identifier: Apache-2.0
#include "src/commands/plan_answers.h"

#include <gtest/gtest.h>

#include <string>

namespace bascule::test {
namespace {

TEST(PlanAnswers, WhatIsAliveAtThePeakStandsInColumnsByWhoMadeIt) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  PlanAnswers answers;
  answers.alive = {{"layer.*", 12, 3 * kMiB, 5 * kMiB, 7 * kMiB}};
  const std::string text = answers.text();
  const std::size_t line = text.find("  layer.* (12) ");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_EQ(text.find("      3.00      5.00      7.00\n"), text.size() - 31) << text;
  EXPECT_NE(text.find(" forward  repeated  backward\n"), std::string::npos) << text;
}

TEST(PlanAnswers, TheLargestBatchSaysWhereTheRowsAreWhatEndsIt) {
  PlanAnswers answers;
  answers.batches = {{"float32", "off", {0, false}}, {"float32", "full", {96, false}}, {"bf16", "full", {4258, true}}};
  EXPECT_EQ(answers.text().substr(answers.text().find('\n') + 1),
            "largest training batch of a rank that fits\n"
            "  float32  gradient_checkpointing = \"off\"           none\n"
            "  float32  gradient_checkpointing = \"full\"            96\n"
            "  bf16     gradient_checkpointing = \"full\"         4,258, all rows\n");
}

}  // namespace
}  // namespace bascule::test
