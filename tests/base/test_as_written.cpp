// SPDX-License-Identifier: Apache-2.0
#include "src/base/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bascule::test {
namespace {

TEST(AsWritten, IsTheShortestDecimalNumberOfTheFloat) {
  EXPECT_EQ(as_written(4.2f), 4.2);
  EXPECT_EQ(as_written(-0.1f), -0.1);
  EXPECT_EQ(as_written(3.0f), 3.0);
  EXPECT_EQ(as_written(1e-38f), 1e-38);
  EXPECT_TRUE(std::signbit(as_written(-0.0f)));
  EXPECT_EQ(static_cast<float>(as_written(std::numeric_limits<float>::max())), std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isinf(as_written(INFINITY)));
  EXPECT_TRUE(std::isnan(as_written(NAN)));
}

}  // namespace
}  // namespace bascule::test
