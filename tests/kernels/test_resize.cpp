// SPDX-License-Identifier: Apache-2.0
#include "kernels/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/reference/resize.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_resize {
namespace {

constexpr std::int64_t kSlack = kResizeSlackBytes;

// Random taps of an axis: any positions within `in_pixels`, weights of both signs.
template <typename Weight>
struct RandomTaps {
  std::vector<std::int32_t> first;
  std::vector<Weight> weights;

  RandomTaps(Seeded& random, std::int64_t outputs, std::int64_t taps, std::int64_t in_pixels, double largest) {
    for (std::int64_t i = 0; i < outputs; ++i)
      first.push_back(static_cast<std::int32_t>(random.integer(0, std::max<std::int64_t>(0, in_pixels - taps))));
    weights.resize(static_cast<std::size_t>(outputs * taps));
    for (Weight& weight : weights) weight = static_cast<Weight>(random.uniform(-largest, largest));
  }
};

// Pixels with unreadable memory behind the slack that the contract asks for.
struct Picture {
  std::int64_t stride;
  GuardedBuffer<std::uint8_t> bytes;

  Picture(Seeded& random, std::int64_t rows, std::int64_t pixels)
      : stride(4 * pixels + kSlack + random.integer(0, 70)),
        bytes(static_cast<std::size_t>((rows - 1) * stride + 4 * pixels + kSlack)) {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.bits());
  }
};

TEST(Resize, ColumnsOfBytesAreThoseOfTheReferenceOnEveryIsa) {
  Seeded random;
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 8}) {
    for (std::int64_t outputs = 1; outputs <= 18; ++outputs) {
      const std::int64_t taps = kByteTapUnit * random.integer(1, 3);
      const std::int64_t pixels = taps + random.integer(0, 40);
      const Picture in(random, rows, pixels);
      const RandomTaps<std::int16_t> axis(random, outputs, taps, pixels, 32767.0 / static_cast<double>(taps) * 4);
      const std::int64_t out_stride = 4 * outputs + kSlack;
      std::vector<std::uint8_t> expected(static_cast<std::size_t>(rows * out_stride));
      ResampleRowsBytes a = {expected.data(),
                             in.bytes.data(),
                             axis.first.data(),
                             axis.weights.data(),
                             rows,
                             outputs,
                             taps,
                             out_stride,
                             in.stride,
                             static_cast<int>(random.integer(13, 19))};
      reference::resample_rows_bytes(a);
      for (const Isa isa : isas()) {
        GuardedBuffer<std::uint8_t> out(expected.size());
        a.out = out.data();
        resize_kernels_for(isa).resample_rows_bytes(a);
        for (std::int64_t r = 0; r < rows; ++r) {
          ASSERT_EQ(std::memcmp(out.data() + r * out_stride, expected.data() + r * out_stride,
                                static_cast<std::size_t>(4 * outputs)),
                    0)
              << isa_name(isa) << " rows=" << rows << " outputs=" << outputs << " taps=" << taps << " row " << r;
        }
      }
    }
  }
}

TEST(Resize, RowsOfBytesAreThoseOfTheReferenceOnEveryIsa) {
  Seeded random;
  for (std::int64_t taps = 1; taps <= 9; ++taps) {
    for (std::int64_t pixels = 1; pixels <= 33; ++pixels) {
      const Picture in(random, taps, pixels);
      std::vector<const std::uint8_t*> rows;
      for (std::int64_t t = 0; t < taps; ++t) rows.push_back(in.bytes.data() + t * in.stride);
      const RandomTaps<std::int16_t> axis(random, 1, taps, taps, 20000.0);
      const std::size_t values = static_cast<std::size_t>(4 * pixels);
      std::vector<std::uint8_t> expected(values);
      BlendRowsBytes a = {expected.data(), rows.data(), axis.weights.data(), taps, 4 * pixels, 14};
      reference::blend_rows_bytes(a);
      for (const Isa isa : isas()) {
        GuardedBuffer<std::uint8_t> out(values + kSlack);
        a.out = out.data();
        resize_kernels_for(isa).blend_rows_bytes(a);
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), values), 0)
            << isa_name(isa) << " taps=" << taps << " pixels=" << pixels;
      }
    }
  }
}

TEST(Resize, NormalisingBytesIsExactAndWritesNothingElse) {
  Seeded random;
  for (std::int64_t pixels = 1; pixels <= 50; ++pixels) {
    const Picture in(random, 1, pixels);
    const std::size_t count = static_cast<std::size_t>(pixels);
    std::vector<float> expected(3 * count);
    BytesToPlanes a = {{}, in.bytes.data(), pixels, {122.8f, 116.7f, 104.1f}, {68.5f, 66.6f, 70.3f}};
    for (std::size_t c = 0; c < 3; ++c) a.out[c] = expected.data() + c * count;
    reference::bytes_to_planes(a);
    for (const Isa isa : isas()) {
      GuardedBuffer<float> out(3 * count);
      for (std::size_t c = 0; c < 3; ++c) a.out[c] = out.data() + c * count;
      resize_kernels_for(isa).bytes_to_planes(a);
      ASSERT_EQ(first_different_bit(out, expected), -1) << isa_name(isa) << " pixels=" << pixels;
    }
  }
}

TEST(Resize, ColumnsOfFloatsAreNearTheReferenceAndTheSameBitsOnEveryIsa) {
  Seeded random;
  for (const std::int64_t rows : {1, 3, 4, 6}) {
    for (std::int64_t outputs = 1; outputs <= 18; ++outputs) {
      const std::int64_t taps = kFloatTapUnit * random.integer(1, 5);
      const std::int64_t pixels = taps + random.integer(0, 40);
      const Picture in(random, rows, pixels);
      const RandomTaps<float> axis(random, outputs, taps, pixels, 1.0);
      const std::int64_t out_stride = 4 * outputs + kSlack / 4;
      const std::size_t size = static_cast<std::size_t>(rows * out_stride);
      std::vector<float> truth(size);
      ResampleRowsFloat a = {truth.data(), in.bytes.data(), axis.first.data(), axis.weights.data(), rows, outputs,
                             taps,         out_stride,      in.stride};
      reference::resample_rows_float<double>(a);
      std::vector<float> first_isa;
      for (const Isa isa : isas()) {
        GuardedBuffer<float> out(size);
        a.out = out.data();
        resize_kernels_for(isa).resample_rows_float(a);
        std::vector<float> values;
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t i = 0; i < 4 * outputs; ++i) {
            const float value = out.data()[r * out_stride + i];
            values.push_back(value);
            // |weight| < 1, |value| <= 255: the sum of magnitudes is below 255 taps; one rounding more for the
            // reference's own float.
            ASSERT_NEAR(static_cast<double>(value),
                        static_cast<double>(truth[static_cast<std::size_t>(r * out_stride + i)]),
                        sum_bound(taps + 2, 255.0 * static_cast<double>(taps)))
                << isa_name(isa);
          }
        }
        if (first_isa.empty()) first_isa = values;
        ASSERT_EQ(first_different_bit(values, first_isa), -1)
            << isa_name(isa) << " outputs=" << outputs << " taps=" << taps;
      }
    }
  }
}

TEST(Resize, BlendingToPlanesIsNearTheReferenceAndTheSameBitsOnEveryIsa) {
  Seeded random;
  for (std::int64_t taps = 1; taps <= 9; ++taps) {
    for (std::int64_t pixels = 1; pixels <= 35; ++pixels) {
      const std::size_t row_floats = static_cast<std::size_t>(4 * pixels + kSlack / 4);
      std::vector<GuardedBuffer<float>> data;
      std::vector<const float*> rows;
      for (std::int64_t t = 0; t < taps; ++t) {
        data.emplace_back(row_floats);
        random.fill_uniform(data.back().data(), row_floats, 0.0, 255.0);
        rows.push_back(data.back().data());
      }
      const RandomTaps<float> axis(random, 1, taps, taps, 1.0);
      const std::size_t count = static_cast<std::size_t>(pixels);
      std::vector<float> truth(3 * count);
      BlendToPlanes a = {
          {}, rows.data(), axis.weights.data(), taps, pixels, {0.0146f, 0.0150f, 0.0142f}, {-1.79f, -1.75f, -1.48f}};
      for (std::size_t c = 0; c < 3; ++c) a.out[c] = truth.data() + c * count;
      reference::blend_to_planes<double>(a);
      std::vector<float> first_isa;
      for (const Isa isa : isas()) {
        GuardedBuffer<float> out(3 * count);
        for (std::size_t c = 0; c < 3; ++c) a.out[c] = out.data() + c * count;
        resize_kernels_for(isa).blend_to_planes(a);
        // The sum's error scaled, then the roundings of the fma and of the reference's own float.
        const double bound = 0.015 * sum_bound(taps + 1, 255.0 * static_cast<double>(taps)) +
                             4 * kFloatEpsilon * 0.015 * 255.0 * static_cast<double>(taps);
        ASSERT_LE(max_abs_error(out, truth), bound) << isa_name(isa);
        const std::vector<float> values(out.begin(), out.end());
        if (first_isa.empty()) first_isa = values;
        ASSERT_EQ(first_different_bit(values, first_isa), -1)
            << isa_name(isa) << " taps=" << taps << " pixels=" << pixels;
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_resize
