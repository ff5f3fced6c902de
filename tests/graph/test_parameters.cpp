// SPDX-License-Identifier: Apache-2.0
#include "src/graph/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/seeded.h"

namespace bascule::test::test_parameters {
namespace {

Parameter parameter(const std::string& name, std::int64_t rows, std::int64_t cols, bool trained, bool decayed) {
  return {name, rows, cols, trained, decayed, {{name, {rows, cols}, 0, rows * cols, {}}}};
}

ParameterSet random_parameters(Seeded& random, int count) {
  ParameterSet set;
  for (int i = 0; i < count; ++i) {
    set.add(parameter("p" + std::to_string(i), random.integer(1, 9), random.integer(1, 40), random.chance(0.8),
                      random.chance(0.5)));
  }
  return set;
}

TEST(ParameterLayout, OffsetsAreCacheLinesApartAndNeverOverlap) {
  Seeded random(21);
  const ParameterSet set = random_parameters(random, 60);
  const ParameterLayout layout = lay_out_parameters(set, {});
  for (const bool trained : {true, false}) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (int p = 0; p < set.size(); ++p) {
      const ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(p)];
      EXPECT_EQ(place.trained, set[p].trained);
      EXPECT_EQ(place.offset % 16, 0);
      if (place.trained == trained) ranges.emplace_back(place.offset, place.offset + set[p].elements());
    }
    std::sort(ranges.begin(), ranges.end());
    ASSERT_FALSE(ranges.empty());
    EXPECT_EQ(ranges.front().first, 0);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      EXPECT_GE(ranges[i].first, ranges[i - 1].second);
      EXPECT_LT(ranges[i].first, ranges[i - 1].second + 16) << "no more room between two than alignment asks for";
    }
    const std::int64_t end = trained ? layout.trained_elements : layout.fixed_elements;
    EXPECT_GE(end, ranges.back().second);
    EXPECT_LT(end, ranges.back().second + 16);
  }
}

TEST(ParameterLayout, RunsCoverTheTrainedRangeAndSayWhatDecays) {
  Seeded random(22);
  const ParameterSet set = random_parameters(random, 60);
  const ParameterLayout layout = lay_out_parameters(set, {});
  std::int64_t end = 0;
  for (std::size_t i = 0; i < layout.runs.size(); ++i) {
    EXPECT_EQ(layout.runs[i].offset, end);
    end += layout.runs[i].elements;
    if (i == 0) continue;
    EXPECT_NE(layout.runs[i].decayed, layout.runs[i - 1].decayed) << "neighbours of one kind are one run";
  }
  EXPECT_EQ(end, layout.trained_elements);
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(p)];
    if (!place.trained) continue;
    for (const ParameterLayout::Run& run : layout.runs) {
      const bool inside = place.offset >= run.offset && place.offset < run.offset + run.elements;
      EXPECT_TRUE(!inside || run.decayed == set[p].decayed) << set[p].name;
    }
  }
}

TEST(ParameterLayout, FollowsTheOrderGivenAndAppendsWhatItLacks) {
  ParameterSet set;
  for (const char* name : {"a", "b", "c", "d"}) set.add(parameter(name, 1, 16, true, true));
  const std::vector<int> order = {2, 0};
  const ParameterLayout layout = lay_out_parameters(set, order);
  EXPECT_EQ(layout.places[2].offset, 0);
  EXPECT_EQ(layout.places[0].offset, 16);
  EXPECT_EQ(layout.places[1].offset, 32);
  EXPECT_EQ(layout.places[3].offset, 48);
}

// Three tensors of two values each that lie in one parameter.
Parameter stacked(const std::string& name) {
  Parameter p{name, 1, 6, true, false, {}};
  for (const char* part : {"query", "key", "value"}) {
    ParameterPiece piece;
    piece.name = name + "." + part;
    piece.shape = {2};
    piece.first_element = 2 * static_cast<std::int64_t>(p.pieces.size());
    piece.elements = 2;
    p.pieces.push_back(piece);
  }
  return p;
}

TEST(ParameterGroups, ATensorBelongsToTheFirstGroupThatMatchesIt) {
  ParameterSet set;
  set.set_groups({{"top.*"}, {"*.bias"}}, "body.");
  const int head = set.add(parameter("head.bias", 1, 4, true, false));
  const int both = set.add(parameter("body.top.bias", 1, 4, true, false));  // the prefix may be left out
  const int none = set.add(parameter("body.weight", 1, 4, true, true));
  const int other = set.add(parameter("other.top.weight", 1, 4, true, true));
  EXPECT_EQ(set[head].pieces[0].group, 1);
  EXPECT_EQ(set[both].pieces[0].group, 0);
  EXPECT_EQ(set[none].pieces[0].group, -1);
  EXPECT_EQ(set[other].pieces[0].group, -1);
  EXPECT_TRUE(set.matches(1, "body.top.bias"));
}

TEST(ParameterGroups, AParameterIsNotTrainedWhereAllItsPiecesAreFrozen) {
  ParameterSet set;
  set.set_groups({{"a.*", true}, {"b.query", true}, {"c.*", false}}, "");
  EXPECT_FALSE(set[set.add(stacked("a"))].trained);
  EXPECT_TRUE(set[set.add(stacked("b"))].trained);
  EXPECT_TRUE(set[set.add(stacked("c"))].trained);
}

TEST(ParameterGroups, RunsEndWhereAGroupBeginsWithinAParameterToo) {
  ParameterSet set;
  set.set_groups({{"*.key"}}, "");
  set.add(stacked("a"));
  set.add(parameter("b", 1, 16, true, false));
  const ParameterLayout layout = lay_out_parameters(set, {});
  ASSERT_EQ(layout.runs.size(), 3u);
  const std::int64_t ends[] = {2, 4, 32};
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(layout.runs[i].offset, begin);
    EXPECT_EQ(layout.runs[i].offset + layout.runs[i].elements, ends[i]);
    EXPECT_EQ(layout.runs[i].group, i == 1 ? 0 : -1);
    begin = ends[i];
  }
}

TEST(ParameterSet, TheSameNameIsTheSameParameter) {
  ParameterSet set;
  const int first = set.add(parameter("word", 5, 4, true, true));
  EXPECT_EQ(set.add(parameter("other", 5, 4, true, true)), first + 1);
  EXPECT_EQ(set.add(parameter("word", 5, 4, true, true)), first);
  EXPECT_EQ(set.size(), 2);
}

TEST(ParameterSetDeathTest, AnotherShapeUnderTheSameNameEndsTheProgram) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  ParameterSet set;
  set.add(parameter("word", 5, 4, true, true));
  EXPECT_DEATH(set.add(parameter("word", 4, 5, true, true)), "parameters.cpp");
  EXPECT_DEATH(set.add(parameter("word", 5, 4, false, true)), "parameters.cpp");
}

// An optimizer of matrices means those of the file, which do not lie together in another order.
TEST(ParametersDeathTest, MatricesOfATensorInAnotherOrderThanItsFileEndTheProgram) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  ParameterSet set;
  Parameter kernel = parameter("kernel", 4, 6, true, true);
  kernel.pieces.front().shape = {4, 3, 2};
  kernel.pieces.front().order = {0, 2, 1};
  set.add(kernel);
  EXPECT_EQ(lay_out_parameters(set, {}, RunDivision::kByTensor).runs.size(), 1u);
  EXPECT_DEATH(lay_out_parameters(set, {}, RunDivision::kByMatrix), "parameters.cpp");
}

}  // namespace
}  // namespace bascule::test::test_parameters
