// SPDX-License-Identifier: Apache-2.0
#include "src/commands/plan_answers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

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

std::vector<NodeFacts> two_nodes() {
  std::vector<NodeFacts> nodes(2);
  nodes[0].cores = "0-1";
  nodes[1].number = 1;
  nodes[1].cores = "2-3";
  return nodes;
}
const std::vector<std::int64_t> kCores = {0, 1, 2, 3};

class RanksOfPlan : public testing::Test {
 protected:
  RanksOfPlan() { settings_.words.heads.resize(1); }
  HeadWords& head() { return settings_.words.heads.front(); }
  ProposedRanks proposed(int machines = 1) const { return propose_ranks_for(settings_, machines, two_nodes(), kCores); }

  Settings settings_;
};

TEST_F(RanksOfPlan, AreOneForEachMemoryNode) {
  EXPECT_EQ(
      ranks_line(proposed(), 1),
      "proposed for this machine: distributed.world_size = 2; it is 1 (one for each memory node, whose cores then "
      "use its memory)\n");
  EXPECT_EQ(ranks_line(proposed(), 2),
            "proposed for this machine: distributed.world_size = 2, as it is (one for each memory node, whose cores "
            "then use its memory)\n");
  settings_.machine.threads = 2;
  EXPECT_EQ(proposed().ranks, 1);
  settings_.distributed.world_size = 2;  // each with so many threads
  EXPECT_EQ(proposed().ranks, 2);
}

TEST_F(RanksOfPlan, WouldEachHaveNegativesOfTheirOwn) {
  head().uses_negatives = true;
  EXPECT_EQ(proposed().ranks, 1);
  EXPECT_NE(proposed().reason.find("unless training.gather_negatives = true"), std::string::npos);
  settings_.training.gather_negatives = true;
  EXPECT_EQ(proposed().ranks, 2);
  settings_.training.gather_negatives = false;
  head().embeds_texts = true;
  settings_.training.loss = EmbeddingLoss::kCosent;  // which compares scores
  EXPECT_EQ(proposed().ranks, 2);
}

TEST_F(RanksOfPlan, AreAsManyOnEachMachine) {
  EXPECT_EQ(proposed(3).ranks, 6);
  EXPECT_NE(proposed(3).reason.find("3 machines"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test
