// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/dropout.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_dropout {
namespace {

// Random123 1.14, tests/kat_vectors: philox4x32 10.
TEST(Dropout, PhiloxGivesTheKnownAnswersOfRandom123) {
  struct KnownAnswer {
    reference::PhiloxBlock counter;
    std::uint32_t key[2];
    reference::PhiloxBlock result;
  };
  const KnownAnswer answers[] = {
      {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}}},
      {{{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}},
       {0xffffffffu, 0xffffffffu},
       {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}}},
      {{{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}},
       {0xa4093822u, 0x299f31d0u},
       {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}}},
  };
  for (const KnownAnswer& answer : answers) {
    const reference::PhiloxBlock result = reference::philox4x32_10(answer.counter, answer.key[0], answer.key[1]);
    for (int w = 0; w < 4; ++w) EXPECT_EQ(result.word[w], answer.result.word[w]);
  }
}

DropoutStream stream_of(double p) {
  DropoutStream stream;
  stream.threshold = static_cast<std::uint32_t>(std::llround(p * 0x1p32));
  stream.scale = static_cast<float>(1.0 / (1.0 - p));
  stream.key[0] = 0x85a308d3u;
  stream.key[1] = 0xfffffff0u;
  stream.operation = 77;
  return stream;
}

// Samples beyond 32 bits keep their low 32; positions use all 16.
const std::uint64_t kKeys[] = {dropout_row_key(0, 0), dropout_row_key(0xffffffffu, 65535),
                               dropout_row_key(0x123456789ull, 12)};
constexpr std::int64_t kRows = 3;

std::vector<float> run(const KernelTable& kernels, const std::vector<float>& x, std::int64_t cols,
                       const DropoutStream& stream, Place place, bool in_place) {
  Floats in(x, place), out(kRows * cols, place);
  Floats& y = in_place ? in : out;
  kernels.dropout_forward({y.data(), in.data(), kKeys, kRows, cols, stream});
  return y.values();
}

// The kernel has no rounding but x * scale, so the reference in float is the exact answer.
TEST(Dropout, EveryElementIsWhatItsCoordinatesSayOnEveryIsa) {
  Seeded random;
  std::vector<std::int64_t> widths = lengths();
  widths.insert(widths.end(), {47, 63, 64, 65, 80, 127, 129});
  for (const std::int64_t cols : widths) {
    const std::vector<float> x = normal(random, kRows * cols);
    for (const double p : {0.0, 0.1, 0.5, 0.9}) {
      const DropoutStream stream = stream_of(p);
      std::vector<float> truth(x.size());
      reference::dropout_forward(truth.data(), x.data(), {nullptr, nullptr, kKeys, kRows, cols, stream});
      for (const Place place : kPlaces) {
        const auto y =
            same_on_every_isa([&](const KernelTable& kernels) { return run(kernels, x, cols, stream, place, false); });
        EXPECT_EQ(first_different_bit(y, truth), -1) << "cols " << cols << " p " << p;
      }
      EXPECT_EQ(first_different_bit(run(kernels_for(isas()[0]), x, cols, stream, Place::kOneBefore, true), truth), -1);
    }
  }
}

TEST(Dropout, DropsTheFractionAsked) {
  const std::int64_t cols = 1 << 18;
  const std::vector<float> ones(static_cast<std::size_t>(kRows * cols), 1.0f);
  for (const double p : {0.1, 0.5}) {
    const auto y = run(kernels_for(best_isa()), ones, cols, stream_of(p), Place::kPageStart, false);
    const double zeros_found = static_cast<double>(std::count(y.begin(), y.end(), 0.0f));
    const double n = static_cast<double>(y.size());
    EXPECT_NEAR(zeros_found / n, p, 5 * std::sqrt(p * (1 - p) / n));
  }
}

}  // namespace
}  // namespace bascule::test::test_dropout
