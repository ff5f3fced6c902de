// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/reference/bf16.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_bf16 {
namespace {

float float_of(std::uint32_t bits) {
  float value = 0.0f;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Around every bf16, both NaNs, both infinities and subnormals: the ties, and the numbers next to them.
TEST(Bf16, IsTheNearestAndATieGoesToTheEven) {
  std::vector<float> x;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(float_of(upper << 16 | lower));
  }
  const std::int64_t count = static_cast<std::int64_t>(x.size());
  std::vector<std::uint16_t> truth(x.size()), out(x.size());
  reference::to_bf16({truth.data(), x.data(), count});
  EXPECT_EQ(truth[6 * 0x3f80 + 3], 0x3f80);  // 1 and half a step: 1 is even
  EXPECT_EQ(truth[6 * 0x3f81 + 3], 0x3f82);
  EXPECT_EQ(truth[6 * 0x7f7f + 3], 0x7f80);  // beyond the largest
  EXPECT_EQ(truth[6 * 0x7f80 + 1], 0x7fc0);  // a NaN whose upper half is that of infinity stays one
  for (const Isa isa : isas()) {
    kernels_for(isa).to_bf16({out.data(), x.data(), count});
    EXPECT_EQ(out, truth) << isa_name(isa);
  }
}

TEST(Bf16, OfAnyLengthComesBackExactlyAlsoFromTheUpperHalfOfItsPlace) {
  Seeded random;
  for (std::int64_t count = 1; count < 100; ++count) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < count; ++i) x.push_back(static_cast<float>(random.normal()));
    std::vector<std::uint16_t> truth(x.size());
    reference::to_bf16({truth.data(), x.data(), count});
    std::vector<float> widened(x.size());
    reference::from_bf16({widened.data(), truth.data(), count});
    for (const Isa isa : isas()) {
      std::vector<std::uint16_t> halves(x.size() + 1, 7);
      kernels_for(isa).to_bf16({halves.data(), x.data(), count});
      EXPECT_EQ(halves.back(), 7) << "one too many";
      EXPECT_EQ(std::memcmp(halves.data(), truth.data(), truth.size() * 2), 0);
      std::vector<std::uint16_t> place(2 * x.size() + 2, 7);
      std::memcpy(place.data() + count, truth.data(), truth.size() * 2);
      float* const out = static_cast<float*>(static_cast<void*>(place.data()));
      kernels_for(isa).from_bf16({out, place.data() + count, count});
      EXPECT_EQ(place.back(), 7) << "one too many";
      EXPECT_EQ(std::memcmp(out, widened.data(), widened.size() * sizeof(float)), 0) << count << isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_bf16
