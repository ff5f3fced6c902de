// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/tensor_source.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

TEST(Strides, ATensorMayReachTheLastElementAndNoFurther) {
  EXPECT_TRUE(lies_within({2, 3}, {3, 1}, 0, 6));
  EXPECT_FALSE(lies_within({2, 3}, {3, 1}, 1, 6));
  EXPECT_FALSE(lies_within({2, 3}, {4, 1}, 0, 6));
  EXPECT_TRUE(lies_within({}, {}, 5, 6));  // a scalar
  EXPECT_FALSE(lies_within({}, {}, 6, 6));
}

TEST(Strides, AnEmptyTensorReachesNothing) {
  EXPECT_TRUE(lies_within({0, 4}, {4, 1}, 0, 0));
  EXPECT_FALSE(lies_within({0, 4}, {4, 1}, 1, 0));
}

TEST(Strides, ProductsThatOverflowAreOutside) {
  EXPECT_FALSE(lies_within({kHuge, 4}, {0, 0}, 0, 6));
  EXPECT_FALSE(lies_within({3, 2}, {kHuge, 1}, 0, 6));
  EXPECT_FALSE(lies_within({2, 2, 2}, {kHuge, kHuge, 1}, 0, 6));
}

TEST(Strides, RowMajorWithoutGapsIsContiguousWhateverTheStrideOfOneElement) {
  EXPECT_TRUE(is_contiguous({2, 3, 4}, {12, 4, 1}));
  EXPECT_TRUE(is_contiguous({2, 1, 4}, {4, 99, 1}));
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_FALSE(is_contiguous({3, 2}, {1, 3}));
  EXPECT_FALSE(is_contiguous({2, 3}, {4, 1}));
}

}  // namespace
}  // namespace bascule
