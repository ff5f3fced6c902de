// SPDX-License-Identifier: Apache-2.0
#include "src/base/error.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace bascule {
namespace {

TEST(CountOf, OnlyOneHasTheNounWithoutAPlural) {
  EXPECT_EQ(count_of(std::int64_t{0}, "row"), "0 rows");
  EXPECT_EQ(count_of(std::int64_t{1}, "row"), "1 row");
  EXPECT_EQ(count_of(std::size_t{1583}, "row"), "1583 rows");
}

TEST(CountOf, ANounWithAnSAtItsEndTakesAnE) {
  EXPECT_EQ(count_of(1, "class"), "1 class");
  EXPECT_EQ(count_of(2, "class"), "2 classes");
  EXPECT_EQ(noun_for(2, "epoch"), "epochs");
}

}  // namespace
}  // namespace bascule
