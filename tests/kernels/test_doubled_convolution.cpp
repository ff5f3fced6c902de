// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/reference/convolution.h"
#include "kernels/reference/gemm_tile.h"
#include "tests/kernels/convolution_operands.h"

namespace bascule::test::test_doubled_convolution {
namespace {

struct Case {
  std::int64_t samples, height, width, channels, cols;
  std::int64_t lines() const { return samples * height; }
  std::int64_t pixels() const { return lines() * width; }
  DoubledConvolution shape() const {
    return {nullptr, nullptr, nullptr, nullptr, cols, 0, lines(), cols, height, width, channels, nullptr};
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.samples << " of " << c.height << " x " << c.width << " x " << c.channels << " to " << c.cols;
}

// Pictures of one pixel and one line, several blocks of rows and columns, several chunks of windows.
std::vector<Case> cases() {
  std::vector<Case> list;
  OutputsByTurns outputs;
  for (const std::int64_t channels : {1, 3, 4, 17}) {
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 5}, {3, 2}, {4, 15}, {2, 29}})
      list.push_back({2, height, width, channels, outputs.next()});
  }
  list.push_back({2, 3, 5, 100, 66});
  list.push_back({1, 2, 16, 130, kGemmTileCols});
  return list;
}

ConvolutionOperands operands_of(Seeded& random, const Case& c) {
  return {random, c.pixels() * c.channels, c.cols, kTaps * c.channels};
}

std::vector<float> result_of(const KernelTable& kernels, const Case& c, const ConvolutionOperands& operands, bool bias,
                             Place place) {
  static ConvolutionScratch scratch;
  Floats y(4 * c.pixels() * c.cols, place), x(operands.x, place), w(operands.weight, place), b(operands.bias, place);
  DoubledConvolution a = c.shape();
  a.y = y.data();
  a.x = x.data();
  a.weight = w.data();
  a.bias = bias ? b.data() : nullptr;
  a.scratch = &scratch;
  kernels.doubled_convolution(a);
  return y.values();
}

// The product that the definition names, for each pixel by itself.
std::vector<float> product_of(const Case& c, const ConvolutionOperands& operands, bool bias) {
  const DoubledConvolution a = c.shape();
  const std::int64_t depth = 4 * c.channels;
  std::vector<float> y(static_cast<std::size_t>(4 * c.pixels() * c.cols)), weights, window;
  for (std::int64_t kind = 0; kind < 4; ++kind) {
    const std::int64_t u = kind / 2, v = kind % 2;
    weights.clear();
    for (std::int64_t o = 0; o < c.cols; ++o) {
      for (std::int64_t d = 0; d < depth; ++d)
        weights.push_back(reference::doubled_weight(operands.weight.data() + o * kTaps * c.channels, a, u, v, d));
    }
    for (std::int64_t pixel = 0; pixel < c.pixels(); ++pixel) {
      const std::int64_t line = pixel / c.width, j = pixel % c.width;
      window.clear();
      for (std::int64_t d = 0; d < depth; ++d) {
        const std::int64_t from = reference::doubled_window_element(a, line, u, j, v, d);
        window.push_back(from < 0 ? 0.0f : operands.x[static_cast<std::size_t>(from)]);
      }
      float* const out = y.data() + ((2 * line + u) * 2 * c.width + 2 * j + v) * c.cols;
      reference::gemm_tile({GemmKind::kForward, out, window.data(), weights.data(),
                            bias ? operands.bias.data() : nullptr, depth, depth, c.cols, 1, c.cols, depth, false,
                            nullptr});
    }
  }
  return y;
}

TEST(DoubledConvolution, HasTheBitsOfItsDefinition) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands operands = operands_of(random, c);
    for (const bool bias : {false, true}) {
      const std::vector<float> truth = product_of(c, operands, bias);
      for (const Place place : kPlaces) {
        const auto y =
            same_on_every_isa([&](const KernelTable& kernels) { return result_of(kernels, c, operands, bias, place); });
        ASSERT_EQ(first_different_bit(y, truth), -1) << c;
      }
    }
  }
}

template <typename X, typename W>
void expect_bits_in_bf16(const Case& c, const ConvolutionOperands& o) {
  SCOPED_TRACE(::testing::Message() << c);
  expect_bits_of_bf16<X, W>(c.shape(), 4 * c.pixels() * c.cols, o, &reference::doubled_convolution_bf16,
                            &KernelTable::doubled_convolution_bf16);
  expect_bits_of_bf16<X, W>(c.shape(), 4 * c.pixels() * c.cols, o, &reference::doubled_convolution_bf16_tiles,
                            &KernelTable::doubled_convolution_bf16_tiles);
}

TEST(DoubledConvolution, HasTheBitsOfItsDefinitionInBf16) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands o = operands_of(random, c);
    expect_bits_in_bf16<float, float>(c, o);
    expect_bits_in_bf16<std::uint16_t, std::uint16_t>(c, o);
    expect_bits_in_bf16<std::uint16_t, float>(c, o);
  }
}

// Weights about the smallest normal number: the sums of those that are below it, and sums below it, are zeros.
TEST(DoubledConvolution, TakesSubnormalNumbersAsZerosInBf16) {
  Seeded random;
  const Case c{2, 3, 4, 17, 35};
  ConvolutionOperands o = operands_of(random, c);
  for (float& w : o.weight) w *= 0x1p-126f;
  for (float& b : o.bias) b *= 0x1p-127f;
  expect_bits_in_bf16<float, float>(c, o);
  expect_bits_in_bf16<float, std::uint16_t>(c, o);
}

// The convolution of the picture that is enlarged, in float64: both it and the reference with sums of weights.
TEST(DoubledConvolution, IsTheConvolutionOfTheEnlargedPicture) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands operands = operands_of(random, c);
    const Pictures pictures{c.height, c.width, c.channels, 2 * c.height, 2 * c.width, 1};
    std::vector<double> truth = zeros(4 * c.pixels() * c.cols), doubled = truth;
    const auto x = widened(operands.x), weight = widened(operands.weight), bias = widened(operands.bias);
    reference::convolution(truth.data(), x.data(), weight.data(), bias.data(),
                           {nullptr, nullptr, nullptr, nullptr, c.cols, 0, 4 * c.pixels(), c.cols, pictures, nullptr});
    reference::doubled_convolution(doubled.data(), x.data(), weight.data(), bias.data(), c.shape());
    const auto y = result_of(kernels_for(best_isa()), c, operands, true, Place::kBeforeGuard);
    const double bound = kEpsilon * 8.0 * static_cast<double>(kTaps * c.channels);
    expect_within(y, 0, truth, std::vector<double>(truth.size(), bound), "y");
    for (std::size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(doubled[i], truth[i], 1e-9 * bound / kEpsilon) << c;
  }
}

// Any lines and columns, where the whole has them.
TEST(DoubledConvolution, ATileHasTheBitsOfTheWhole) {
  Seeded random;
  const Case c{3, 3, 4, 40, 50};
  const ConvolutionOperands operands = operands_of(random, c);
  const auto whole = result_of(kernels_for(best_isa()), c, operands, true, Place::kBeforeGuard);
  for (const std::int64_t first_line : {0, 2, 5}) {
    for (const std::int64_t first_col : {0, 7, 32}) {
      const std::int64_t lines = 4, cols = c.cols - first_col - 3;
      const auto tile = same_on_every_isa([&](const KernelTable& kernels) {
        static ConvolutionScratch scratch;
        Floats y(std::vector<float>(whole.size(), 5.0f));
        Floats x(operands.x), w(operands.weight), b(operands.bias);
        DoubledConvolution a = c.shape();
        a.y = y.data() + first_col;
        a.x = x.data();
        a.weight = w.data() + first_col * kTaps * c.channels;
        a.bias = b.data() + first_col;
        a.first_line = first_line;
        a.lines = lines;
        a.cols = cols;
        a.scratch = &scratch;
        kernels.doubled_convolution(a);
        return y.values();
      });
      for (std::size_t i = 0; i < whole.size(); ++i) {
        const std::int64_t line = static_cast<std::int64_t>(i) / c.cols / (4 * c.width) - first_line;
        const std::int64_t col = static_cast<std::int64_t>(i) % c.cols - first_col;
        const bool is_of_tile = line >= 0 && line < lines && col >= 0 && col < cols;
        ASSERT_EQ(tile[i], is_of_tile ? whole[i] : 5.0f) << i;
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_doubled_convolution
