// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/reference/convolution.h"
#include "tests/kernels/convolution_operands.h"

namespace bascule::test::test_winograd_convolution {
namespace {

struct Case {
  std::int64_t samples, height, width, channels, cols;
  std::int64_t pixels() const { return samples * height * width; }
  std::int64_t tiles() const { return samples * tiles_of(height) * tiles_of(width); }
  WinogradConvolution shape() const {
    return {nullptr, nullptr, nullptr, nullptr, cols, 0, tiles(), cols, height, width, channels, nullptr};
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.samples << " of " << c.height << " x " << c.width << " x " << c.channels << " to " << c.cols;
}

// Pictures of one pixel and one line, tiles that are cut on either side, several blocks of rows and columns, several
// chunks of channels.
std::vector<Case> cases() {
  std::vector<Case> list;
  OutputsByTurns outputs;
  for (const std::int64_t channels : {1, 3, 16, 35}) {
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 5}, {3, 2}, {4, 15}, {2, 29}})
      list.push_back({2, height, width, channels, outputs.next()});
  }
  list.push_back({8, 2, 2, 40, 50});
  list.push_back({1, 97, 1, 4, 5});
  list.push_back({1, 3, 5, 300, kWinogradCols});
  list.push_back({3, 17, 13, 16, 17});
  list.push_back({2, 23, 23, 4, 3});  // more tiles than are kept
  list.push_back({1, 2, 4, 1280, 33});
  return list;
}

ConvolutionOperands operands_of(Seeded& random, const Case& c) {
  return {random, c.pixels() * c.channels, c.cols, kTaps * c.channels};
}

struct alignas(64) WinogradScratch {
  std::byte bytes[kWinogradScratchBytes];
};

void* filled_scratch() {
  static WinogradScratch scratch;
  std::memset(&scratch, 0xff, sizeof scratch);  // NaN: what is not packed must not be used
  return &scratch;
}

std::vector<float> result_of(const KernelTable& kernels, const Case& c, const ConvolutionOperands& operands, bool bias,
                             Place place) {
  Floats y(c.pixels() * c.cols, place), x(operands.x, place), w(operands.weight, place), b(operands.bias, place);
  WinogradConvolution a = c.shape();
  a.y = y.data();
  a.x = x.data();
  a.weight = w.data();
  a.bias = bias ? b.data() : nullptr;
  a.scratch = filled_scratch();
  kernels.winograd_convolution(a);
  return y.values();
}

TEST(WinogradConvolution, HasTheBitsOfItsDefinition) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands operands = operands_of(random, c);
    for (const bool bias : {false, true}) {
      std::vector<float> truth(static_cast<std::size_t>(c.pixels() * c.cols));
      reference::winograd_convolution(truth.data(), operands.x.data(), operands.weight.data(),
                                      bias ? operands.bias.data() : nullptr, c.shape());
      for (const Place place : kPlaces) {
        const auto y =
            same_on_every_isa([&](const KernelTable& kernels) { return result_of(kernels, c, operands, bias, place); });
        ASSERT_EQ(first_different_bit(y, truth), -1) << c;
      }
    }
  }
}

// The plain convolution in float64: both it and the reference of this one. A sum of pixels or weights is at most four
// times as large as one, and nine products are added.
TEST(WinogradConvolution, IsTheConvolution) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands operands = operands_of(random, c);
    const Pictures pictures{c.height, c.width, c.channels, c.height, c.width, 1};
    std::vector<double> truth = zeros(c.pixels() * c.cols), transformed = truth;
    const auto x = widened(operands.x), weight = widened(operands.weight), bias = widened(operands.bias);
    reference::convolution(truth.data(), x.data(), weight.data(), bias.data(),
                           {nullptr, nullptr, nullptr, nullptr, c.cols, 0, c.pixels(), c.cols, pictures, nullptr});
    reference::winograd_convolution(transformed.data(), x.data(), weight.data(), bias.data(), c.shape());
    const auto y = result_of(kernels_for(best_isa()), c, operands, true, Place::kBeforeGuard);
    const double bound = kEpsilon * 8.0 * static_cast<double>(kTaps * c.channels);
    expect_within(y, 0, truth, std::vector<double>(truth.size(), bound), "y");
    for (std::size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(transformed[i], truth[i], 1e-9 * bound / kEpsilon) << c;
  }
}

// Any tiles and columns, where the whole has them.
TEST(WinogradConvolution, APartHasTheBitsOfTheWhole) {
  Seeded random;
  const Case c{3, 5, 8, 40, 50};
  const ConvolutionOperands operands = operands_of(random, c);
  const auto whole = result_of(kernels_for(best_isa()), c, operands, true, Place::kBeforeGuard);
  const std::int64_t across = tiles_of(c.width), down = tiles_of(c.height);
  for (const std::int64_t first_tile : {0, 1, 11, 13}) {
    for (const std::int64_t tiles : {1, 15, 20}) {
      for (const std::int64_t first_col : {0, 7, 32}) {
        const std::int64_t cols = c.cols - first_col - 3;
        const auto part = same_on_every_isa([&](const KernelTable& kernels) {
          Floats y(std::vector<float>(whole.size(), 5.0f));
          Floats x(operands.x), w(operands.weight), b(operands.bias);
          kernels.winograd_convolution({y.data() + first_col, x.data(), w.data() + first_col * kTaps * c.channels,
                                        b.data() + first_col, c.cols, first_tile, tiles, cols, c.height, c.width,
                                        c.channels, filled_scratch()});
          return y.values();
        });
        for (std::int64_t i = 0; i < c.pixels() * c.cols; ++i) {
          const std::int64_t pixel = i / c.cols, col = i % c.cols - first_col;
          const std::int64_t line = pixel / c.width % c.height, sample = pixel / c.width / c.height;
          const std::int64_t tile = (sample * down + line / 2) * across + pixel % c.width / 2 - first_tile;
          const bool is_of_part = tile >= 0 && tile < tiles && col >= 0 && col < cols;
          const auto at = static_cast<std::size_t>(i);
          ASSERT_EQ(part[at], is_of_part ? whole[at] : 5.0f) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_winograd_convolution
