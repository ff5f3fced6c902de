// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "src/doctor/equal_rows.h"

namespace bascule {
namespace {

TEST(EqualRows, GroupsAreThoseOfEqualDigestsAcrossSplits) {
  const RowDigests first = {7, 9, 7, kNoContent}, second = {9, kNoContent, 5};
  std::vector<std::vector<RowOfSplit>> groups;
  find_equal_rows({&first, &second}, [&](const std::vector<RowOfSplit>& group) { groups.push_back(group); });
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].size(), 2U);
  EXPECT_EQ(groups[0][1].row, 2U);
  EXPECT_EQ(groups[1][0].split, 0U);
  EXPECT_EQ(groups[1][1].split, 1U);
}

TEST(EqualRows, SizesCountSingleRowsAndRowsWithoutContentOneByOne) {
  EXPECT_EQ(group_sizes({4, 4, 4, 2, kNoContent, kNoContent}), (std::map<std::int64_t, std::int64_t>{{1, 3}, {3, 1}}));
}

TEST(EqualRows, BothContentsMustBeThereAndTheirOrderCounts) {
  EXPECT_EQ(digest_of_both(kNoContent, 3), kNoContent);
  EXPECT_EQ(digest_of_both(3, kNoContent), kNoContent);
  EXPECT_NE(digest_of_both(3, 4), digest_of_both(4, 3));
}

TEST(AcrossSplits, RowsAreCountedOnceForEachOtherSplitAndRepetitionsWithinOne) {
  const RowDigests train = {1, 1, 2}, validation = {1, 1, 3}, test = {1, 3, 2};
  const EqualContent content = equal_content({&train, &validation, &test});
  ASSERT_EQ(content.repeated.size(), 2U);  // one row of train, one of validation
  EXPECT_EQ(content.repeated[0].rows, 1);
  EXPECT_EQ(content.repeated[1].rows, 1);
  ASSERT_EQ(content.shared.size(), 3U);
  EXPECT_EQ(content.shared[0].of, 1U);  // validation in train: both of its 1
  EXPECT_EQ(content.shared[0].rows, 2);
  EXPECT_EQ(content.shared[1].rows, 2);  // test in train: 1 and 2
  EXPECT_EQ(content.shared[2].in, 1U);   // test in validation: 1 and 3
  EXPECT_EQ(content.shared[2].rows, 2);
}

TEST(AcrossSplits, ExamplesAreTheFirstRowsWhateverTheirDigests) {
  RowDigests train, test;
  for (std::uint64_t row = 0; row < 50; ++row) train.push_back(row * 0x9e3779b97f4a7c15 + 1);
  test = train;
  const EqualContent content = equal_content({&train, &test});
  ASSERT_EQ(content.shared.size(), 1U);
  EXPECT_EQ(content.shared[0].rows, 50);
  ASSERT_EQ(content.shared[0].examples.size(), kMostExamples);
  for (std::uint32_t i = 0; i < kMostExamples; ++i) EXPECT_EQ(content.shared[0].examples[i].first.row, i);
}

TEST(AcrossSplits, ManyEqualRowsTakeNoLongerThanManyDifferentOnes) {
  const RowDigests train(200'000, 1), test(200'000, 1);
  EXPECT_EQ(equal_content({&train, &test}).shared[0].rows, 200'000);
}

}  // namespace
}  // namespace bascule
