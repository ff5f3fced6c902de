// SPDX-License-Identifier: Apache-2.0
// [[training.groups]]: the only table that a file may have many times.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/settings/keys.h"
#include "src/settings/resume_rules.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

const std::string kThreeGroups = std::string(kLeast) +
                                 "[[training.groups]]\nmatch = \"cross_modal*\"\nlearning_rate_multiplier = 5\n"
                                 "[[training.groups]]\nmatch = \"*.bias\"\nweight_decay = 0.0\n"
                                 "[[training.groups]]\nmatch = \"vision_model.*\"\nfreeze = true\n";

TEST(Groups, StandBehindTheOtherKeysOfTheirTable) {
  std::vector<std::string> tables;  // without repetition
  for (const auto& [key, value] : printed_keys(settings_of(kThreeGroups))) {
    const std::string table = key == kGroupsTable ? key : key.substr(0, key.find('.'));
    if (tables.empty() || tables.back() != table) tables.push_back(table);
  }
  EXPECT_EQ(std::count(tables.begin(), tables.end(), "training"), 1);
  const auto groups = std::find(tables.begin(), tables.end(), kGroupsTable);
  ASSERT_TRUE(groups != tables.begin() && groups != tables.end());
  EXPECT_EQ(*(groups - 1), "training");
}

TEST(Groups, AreReadInTheirOrderWithDefaults) {
  const std::vector<GroupSettings> groups = settings_of(kThreeGroups).training.groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].match, "cross_modal*");
  EXPECT_EQ(groups[0].learning_rate_multiplier, 5.0);
  EXPECT_LT(groups[0].weight_decay, 0.0);  // not written
  EXPECT_FALSE(groups[0].freeze);
  EXPECT_EQ(groups[1].match, "*.bias");
  EXPECT_EQ(groups[1].learning_rate_multiplier, 1.0);
  EXPECT_EQ(groups[1].weight_decay, 0.0);
  EXPECT_FALSE(groups[1].freeze);
  EXPECT_TRUE(groups[2].freeze);
  EXPECT_TRUE(settings_of(kLeast).training.groups.empty());
}

TEST(Groups, ReadBackFromTheCanonicalForm) {
  const Settings s = settings_of(kThreeGroups);
  const Settings again = settings_of(print_settings(s));
  EXPECT_EQ(print_settings(again), print_settings(s));
  EXPECT_EQ(groups_text(again), groups_text(s));
  EXPECT_EQ(groups_text(s),
            "[{match = \"cross_modal*\", learning_rate_multiplier = 5.0, freeze = false}, {match = \"*.bias\", "
            "learning_rate_multiplier = 1.0, weight_decay = 0.0, freeze = false}, {match = \"vision_model.*\", "
            "learning_rate_multiplier = 1.0, freeze = true}]");
}

TEST(Groups, EachKeyAndTheOrderChangeTheDigest) {
  const Settings start = settings_of(kThreeGroups);
  EXPECT_NE(settings_digest(start), settings_digest(settings_of(kLeast)));
  for (const auto change : {+[](GroupSettings& g) { g.match += "x"; }, +[](GroupSettings& g) { g.freeze = !g.freeze; },
                            +[](GroupSettings& g) { g.learning_rate_multiplier = 2.0; },
                            +[](GroupSettings& g) { g.weight_decay = 0.25; }}) {
    Settings other = start;
    change(other.training.groups[1]);
    EXPECT_NE(settings_digest(other), settings_digest(start)) << print_settings(other);
  }
  Settings swapped = start;
  std::swap(swapped.training.groups[0], swapped.training.groups[1]);
  EXPECT_NE(settings_digest(swapped), settings_digest(start));
}

TEST(Groups, AFrozenOneHasNoRateAndNoDecay) {
  const auto frozen = [](const std::string& line) {
    return refusal_of(std::string(kLeast) + "[[training.groups]]\nmatch = \"*.bias\"\n" + line + "freeze = true\n");
  };
  EXPECT_EQ(frozen(""), "");
  EXPECT_EQ(frozen("learning_rate_multiplier = 5\n"),
            "test.toml:7:1: training.groups[0] (match = \"*.bias\") sets freeze = true and learning_rate_multiplier, "
            "which has no effect on frozen tensors; remove one of them");
  EXPECT_NE(frozen("weight_decay = 0.0\n").find("freeze = true and weight_decay, which has no effect"),
            std::string::npos);
}

TEST(Groups, WhatIsWrongIsNamedWithItsPlace) {
  const auto refusal = [](const std::string& lines) { return refusal_of(std::string(kLeast) + lines); };
  EXPECT_EQ(refusal("[[training.groups]]\nfreeze = true\n"),
            "test.toml:7:1: training.groups[0] has no key \"match\"; write match = \"*.bias\" or another pattern "
            "of tensor names");
  EXPECT_EQ(refusal("[training.groups]\nmatch = \"a\"\n"),
            "test.toml:7:11: training.groups is a table; write [[training.groups]] on a line of its own for each "
            "group, and its keys below");
  EXPECT_NE(refusal("[[training.groups]]\nmatch = \"a\"\nfreez = true\n").find("did you mean \"freeze\"?"),
            std::string::npos);
  EXPECT_NE(refusal("[[training.groups]]\nmatch = \"\"\n").find("training.groups.match"), std::string::npos);
  EXPECT_NE(refusal("[[training.groups]]\nmatch = \"a\"\nweight_decay = -0.5\n").find("is out of range"),
            std::string::npos);
  EXPECT_NE(refusal("[[training.groups]]\nmatch = \"a\"\nlearning_rate_multiplier = -1\n").find("is out of range"),
            std::string::npos);
}

}  // namespace
}  // namespace bascule
