// SPDX-License-Identifier: Apache-2.0
#include "src/generate/drawer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace bascule::test {
namespace {

std::uint8_t byte_of(float value) {
  std::uint8_t byte = 77;
  fill_picture_bytes(&byte, &value, 1);
  return byte;
}

TEST(PictureBytes, AreClamped) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(byte_of(-1.0f), 0);
  EXPECT_EQ(byte_of(1.0f), 255);
  EXPECT_EQ(byte_of(0.0f), 128);  // 127.5 to even
  EXPECT_EQ(byte_of(-1.5f), 0);
  EXPECT_EQ(byte_of(1.5f), 255);
  EXPECT_EQ(byte_of(-kInfinity), 0);
  EXPECT_EQ(byte_of(kInfinity), 255);
  EXPECT_EQ(byte_of(std::numeric_limits<float>::quiet_NaN()), 0);
}

// Every float32 whose steps in float32 reach a half, and its neighbours: (x / 2 + 1/2) * 255 is what numpy computes.
TEST(PictureBytes, RoundHalfToEvenInFloat32) {
  int halves = 0;
  for (int k = 0; k < 255; ++k) {
    float value = (static_cast<float>(k) + 0.5f) / 127.5f - 1.0f;
    for (int i = 0; i < 16; ++i) value = std::nextafter(value, -2.0f);
    for (int i = 0; i < 32; ++i, value = std::nextafter(value, 2.0f)) {
      const float scaled = std::min(1.0f, std::max(0.0f, value / 2.0f + 0.5f)) * 255.0f;
      const auto expected = static_cast<std::uint8_t>(std::nearbyint(static_cast<double>(scaled)));
      EXPECT_EQ(byte_of(value), expected) << value;
      halves += scaled == static_cast<float>(k) + 0.5f ? 1 : 0;
    }
  }
  EXPECT_GT(halves, 200);
}

TEST(PictureBytes, KeepTheirOrder) {
  const std::vector<float> values = {-1.0f, 1.0f, 0.5f, -0.5f};
  std::vector<std::uint8_t> bytes(values.size() + 1, 9);
  fill_picture_bytes(bytes.data(), values.data(), static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0, 255, 191, 64, 9}));
}

}  // namespace
}  // namespace bascule::test
