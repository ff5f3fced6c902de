// SPDX-License-Identifier: Apache-2.0
#include "src/base/nearest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bascule {
namespace {

using Rows = std::vector<std::int64_t>;

Rows rows_of(const std::vector<Neighbour>& neighbours) {
  Rows rows;
  for (const Neighbour& one : neighbours) rows.push_back(one.row);
  return rows;
}

TEST(Nearest, OrdersTheRowsAskedForByTheirScoreAndTiesAsTheyCame) {
  const std::vector<float> query = {1.0f, 0.0f};
  const std::vector<float> table = {0.5f, 0.0f, /**/ 1.0f, 0.0f, /**/ -1.0f, 1.0f, /**/ 0.5f, 0.5f};
  EXPECT_EQ(rows_of(nearest(query, table.data(), Rows{0, 1, 2, 3})), (Rows{1, 0, 3, 2}));
  EXPECT_EQ(rows_of(nearest(query, table.data(), Rows{3, 2, 0})), (Rows{3, 0, 2}));
  EXPECT_EQ(nearest(query, table.data(), Rows{2})[0].score, -1.0);
  EXPECT_TRUE(nearest(query, table.data(), Rows{}).empty());
}

TEST(Nearest, SumsInFloat64) {
  const std::vector<float> query = {1.0f, 1.0f, 1.0f}, table = {16777216.0f, 1.0f, -16777216.0f};
  EXPECT_EQ(nearest(query, table.data(), Rows{0})[0].score, 1.0);
}

// A comparison that takes NaN for equal to everything is no order: sorting may then do anything.
TEST(Nearest, RowsWithoutAScoreComeLastInTheirOrderAndLeaveTheOthersSorted) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> query = {1.0f};
  std::vector<float> table;
  Rows rows, numbers, others;
  for (std::int64_t row = 0; row < 400; ++row) {
    table.push_back(row % 3 == 0 ? nan : static_cast<float>(row * 7919 % 400));
    rows.push_back(row);
    (row % 3 == 0 ? others : numbers).push_back(row);
  }
  const std::vector<Neighbour> found = nearest(query, table.data(), rows);
  ASSERT_EQ(found.size(), rows.size());
  for (std::size_t i = 1; i < numbers.size(); ++i) EXPECT_GE(found[i - 1].score, found[i].score) << i;
  const Rows order = rows_of(found);
  EXPECT_EQ(Rows(order.begin() + static_cast<std::ptrdiff_t>(numbers.size()), order.end()), others);
}

}  // namespace
}  // namespace bascule
