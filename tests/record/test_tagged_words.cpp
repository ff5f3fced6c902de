// SPDX-License-Identifier: Apache-2.0
#include "src/record/plan_data.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace bascule {
namespace {

TEST(TaggedWords, FurtherTokensOfAWordThatBeginsAnEntityAreInside) {
  ModelInputs model;
  model.class_names = {"B-LOC", "B-PER", "I-PER", "O", "B-", "PER", "I-LOC", "S-X", "I-X"};
  EXPECT_EQ(further_tags(model), (std::vector<std::int32_t>{6, 2, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace bascule
