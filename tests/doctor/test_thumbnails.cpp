// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/doctor/data.h"

namespace bascule {
namespace {

Thumbnail filled(int value) {
  Thumbnail thumbnail;
  thumbnail.fill(static_cast<std::uint8_t>(value));
  return thumbnail;
}

TEST(Thumbnails, EachSquareIsTheMeanOfItsPixels) {
  constexpr std::int64_t kSide = 20;  // squares of two and three pixels
  std::vector<float> pixels(3 * kSide * kSide, 10.0f);
  pixels[0] = 20.0f;                                       // the first square of R has 2 x 2 pixels
  pixels[2 * kSide * kSide + kSide * kSide - 1] = -90.0f;  // the last of B 3 x 3
  const Thumbnail thumbnail = thumbnail_of(pixels.data(), kSide);
  EXPECT_EQ(thumbnail[0], 12);  // 12.5, to even
  EXPECT_EQ(thumbnail[1], 10);
  EXPECT_EQ(thumbnail[191], 0);  // -1.1
}

TEST(Thumbnails, ASmallPictureIsShownInFull) {
  std::vector<float> pixels(3, 77.0f);
  EXPECT_EQ(thumbnail_of(pixels.data(), 1), filled(77));
}

TEST(Thumbnails, AlikeIsALimitOfEverySquareAndOfTheMean) {
  Thumbnail other = filled(100);
  EXPECT_TRUE(are_alike(filled(100), other));
  other[5] = 100 + kMostApart;
  EXPECT_TRUE(are_alike(filled(100), other));
  ++other[5];
  EXPECT_FALSE(are_alike(filled(100), other));
  EXPECT_TRUE(are_alike(filled(100), filled(102)));
  EXPECT_FALSE(are_alike(filled(100), filled(103)));  // each within the limit, the mean not
}

TEST(Thumbnails, NoisyCopiesAreFoundAmongManyOthers) {
  std::mt19937 random(7);
  std::vector<Thumbnail> thumbnails;
  for (int i = 0; i < 2000; ++i) {
    Thumbnail thumbnail;
    for (std::uint8_t& value : thumbnail) value = static_cast<std::uint8_t>(random() % 256);
    thumbnails.push_back(thumbnail);
  }
  const std::size_t copies = 200;
  for (std::size_t i = 0; i < copies; ++i) {
    Thumbnail copy = thumbnails[5 * i];
    for (std::uint8_t& value : copy)
      value =
          static_cast<std::uint8_t>(std::clamp(static_cast<int>(value) + static_cast<int>(random() % 9) - 4, 0, 255));
    thumbnails.push_back(copy);
  }
  const std::vector<std::vector<std::uint32_t>> groups = find_alike(thumbnails);
  EXPECT_GE(groups.size(), copies - 4);
  for (const std::vector<std::uint32_t>& group : groups) {
    ASSERT_EQ(group.size(), 2U);
    EXPECT_EQ(group[1], 2000 + group[0] / 5);
  }
}

TEST(Thumbnails, ManyEqualOnesAreOneGroup) {
  std::vector<Thumbnail> thumbnails(50'000, filled(3));
  thumbnails.push_back(filled(200));
  const std::vector<std::vector<std::uint32_t>> groups = find_alike(thumbnails);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].size(), 50'000U);
}

}  // namespace
}  // namespace bascule
