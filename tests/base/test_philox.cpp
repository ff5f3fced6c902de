// SPDX-License-Identifier: Apache-2.0
#include "src/base/philox.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

void expect_block(PhiloxCounter counter, PhiloxKey key, PhiloxBlock expected) {
  const PhiloxBlock block = philox4x32(counter, key);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], expected.word[i]);
}

// Random123's kat_vectors, lines "philox4x32 10".
TEST(Philox, GivesThePublishedAnswers) {
  expect_block({{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
  expect_block({{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}}, {{0xffffffffu, 0xffffffffu}},
               {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
  expect_block({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, {{0xa4093822u, 0x299f31d0u}},
               {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST(Philox, JoinsTwoWordsWithTheLowerOneFirst) {
  const PhiloxBlock block{{1, 2, 3, 4}};
  EXPECT_EQ(block.wide(0), 0x0000000200000001u);
  EXPECT_EQ(block.wide(1), 0x0000000400000003u);
}

TEST(Philox, DerivesAKeyOfItsOwnForEachUseAndSeed) {
  const PhiloxKey key = derive_key(42, 1);
  for (const PhiloxKey other : {derive_key(42, 2), derive_key(43, 1), derive_key(42u | std::uint64_t{1} << 32, 1)}) {
    EXPECT_TRUE(key.word[0] != other.word[0] || key.word[1] != other.word[1]);
  }
}

TEST(Philox, BoundsAWordFromNoneToAllOfItsRange) {
  EXPECT_EQ(bounded(0, 10), 0u);
  EXPECT_EQ(bounded(0xffffffffu, 10), 9u);
  EXPECT_EQ(bounded(0x80000000u, 10), 5u);
  EXPECT_EQ(bounded(0xffffffffu, 1), 0u);
}

TEST(Philox, AUniformNumberIsTheMiddleOfItsPart) {
  EXPECT_EQ(uniform(0), 0x1p-33);
  EXPECT_EQ(uniform(0x80000000u), 0.5 + 0x1p-33);
  EXPECT_EQ(uniform(0xffffffffu), 1.0 - 0x1p-33);
}

}  // namespace
}  // namespace bascule
