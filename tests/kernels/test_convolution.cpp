// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "kernels/reference/convolution.h"
#include "kernels/reference/gemm_tile.h"
#include "tests/kernels/convolution_operands.h"

namespace bascule::test::test_convolution {
namespace {

struct Case {
  Pictures pictures;
  std::int64_t samples, cols;
  std::int64_t rows() const { return samples * out_height(pictures) * out_width(pictures); }
  std::int64_t elements() const { return samples * pictures.height * pictures.width * pictures.channels; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const Pictures& p = c.pictures;
  return out << c.samples << " of " << p.height << " x " << p.width << " x " << p.channels << " as "
             << p.enlarged_height << " x " << p.enlarged_width << " stride " << p.stride << " to " << c.cols;
}

Pictures plain(std::int64_t height, std::int64_t width, std::int64_t channels, std::int64_t stride = 1) {
  return {height, width, channels, height, width, stride};
}

// Pictures of one pixel and one row, odd sizes with either stride, enlarged to even and odd sizes, few and many
// channels, several chunks of windows, several blocks of rows and columns.
std::vector<Case> cases() {
  std::vector<Case> list;
  OutputsByTurns outputs;
  for (const std::int64_t channels : {1, 3, 4, 17}) {
    for (const std::int64_t stride : {1, 2}) {
      list.push_back({plain(1, 1, channels, stride), 3, outputs.next()});
      list.push_back({plain(1, 5, channels, stride), 2, outputs.next()});
      list.push_back({plain(3, 2, channels, stride), 3, outputs.next()});
      list.push_back({plain(5, 7, channels, stride), 2, outputs.next()});
      list.push_back({{3, 2, channels, 6, 4, stride}, 2, outputs.next()});
      list.push_back({{3, 4, channels, 5, 7, stride}, 2, outputs.next()});
      list.push_back({{2, 3, channels, 7, 8, stride}, 2, outputs.next()});
    }
  }
  list.push_back({plain(4, 6, 100), 2, 66});
  list.push_back({plain(7, 3, 64, 2), 2, kGemmTileCols});
  list.push_back({{2, 3, 90, 4, 5, 1}, 3, 31});
  return list;
}

ConvolutionOperands operands_of(Seeded& random, const Case& c) {
  return {random, c.elements(), c.cols, window_size(c.pictures)};
}

std::vector<float> convolution_of(const KernelTable& kernels, const Case& c, const ConvolutionOperands& operands,
                                  bool bias, Place place) {
  static ConvolutionScratch scratch;
  Floats y(c.rows() * c.cols, place), x(operands.x, place), w(operands.weight, place), b(operands.bias, place);
  kernels.convolution(
      {y.data(), x.data(), w.data(), bias ? b.data() : nullptr, c.cols, 0, c.rows(), c.cols, c.pictures, &scratch});
  return y.values();
}

// Bits: those of the product of windows and weights.
TEST(Convolution, HasTheBitsOfItsDefinition) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands operands = operands_of(random, c);
    const std::int64_t depth = window_size(c.pictures);
    std::vector<float> windows(static_cast<std::size_t>(c.rows() * depth));
    reference::window_columns(windows.data(), operands.x.data(),
                              {nullptr, nullptr, depth, 0, c.rows(), 0, depth, c.pictures});
    for (const bool bias : {false, true}) {
      std::vector<float> truth(static_cast<std::size_t>(c.rows() * c.cols));
      reference::gemm_tile({GemmKind::kForward, truth.data(), windows.data(), operands.weight.data(),
                            bias ? operands.bias.data() : nullptr, depth, depth, c.cols, c.rows(), c.cols, depth, false,
                            nullptr});
      for (const Place place : kPlaces) {
        const auto y = same_on_every_isa(
            [&](const KernelTable& kernels) { return convolution_of(kernels, c, operands, bias, place); });
        ASSERT_EQ(first_different_bit(y, truth), -1) << c;
      }
    }
  }
}

template <typename X, typename W>
void expect_bits_in_bf16(const Case& c, const ConvolutionOperands& o) {
  SCOPED_TRACE(::testing::Message() << c);
  const Convolution shape{nullptr, nullptr, nullptr, nullptr, c.cols, 0, c.rows(), c.cols, c.pictures, nullptr};
  expect_bits_of_bf16<X, W>(shape, c.rows() * c.cols, o, &reference::convolution_bf16, &KernelTable::convolution_bf16);
  expect_bits_of_bf16<X, W>(shape, c.rows() * c.cols, o, &reference::convolution_bf16_tiles,
                            &KernelTable::convolution_bf16_tiles);
}

TEST(Convolution, HasTheBitsOfItsDefinitionInBf16) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands o = operands_of(random, c);
    expect_bits_in_bf16<float, float>(c, o);
    expect_bits_in_bf16<std::uint16_t, std::uint16_t>(c, o);
    expect_bits_in_bf16<std::uint16_t, float>(c, o);
  }
}

// Products and sums about the smallest normal number: those below it are zeros.
TEST(Convolution, TakesSubnormalNumbersAsZerosInBf16) {
  Seeded random;
  const Case c{plain(5, 7, 17), 2, 35};
  ConvolutionOperands o = operands_of(random, c);
  for (float& x : o.x) x *= 0x1p-63f;
  for (float& w : o.weight) w *= 0x1p-66f;
  for (float& b : o.bias) b *= 0x1p-127f;
  expect_bits_in_bf16<float, std::uint16_t>(c, o);
}

// Each addition rounds a sum of terms below 8 sigma each; the formula's errors would be far larger.
TEST(Convolution, IsWithinItsBoundOfTheExactSum) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands operands = operands_of(random, c);
    std::vector<double> truth = zeros(c.rows() * c.cols);
    reference::convolution(truth.data(), widened(operands.x).data(), widened(operands.weight).data(),
                           widened(operands.bias).data(),
                           {nullptr, nullptr, nullptr, nullptr, c.cols, 0, c.rows(), c.cols, c.pictures, nullptr});
    const auto y = convolution_of(kernels_for(best_isa()), c, operands, true, Place::kBeforeGuard);
    const double bound = kEpsilon * 8.0 * static_cast<double>(window_size(c.pictures));
    expect_within(y, 0, truth, std::vector<double>(truth.size(), bound), "y");
  }
}

// Any rows and columns, where the whole has them.
TEST(Convolution, ATileHasTheBitsOfTheWhole) {
  Seeded random;
  const Case c{{5, 4, 40, 9, 8, 2}, 3, 50};
  const ConvolutionOperands operands = operands_of(random, c);
  const auto whole = convolution_of(kernels_for(best_isa()), c, operands, true, Place::kBeforeGuard);
  for (const std::int64_t first_row : {0, 1, 19, 20, 33}) {
    for (const std::int64_t rows : {1, 13, 27}) {
      for (const std::int64_t first_col : {0, 7, 32}) {
        const std::int64_t cols = c.cols - first_col - 3;
        const auto tile = same_on_every_isa([&](const KernelTable& kernels) {
          static ConvolutionScratch scratch;
          Floats y(std::vector<float>(whole.size(), 5.0f));
          Floats x(operands.x), w(operands.weight), b(operands.bias);
          kernels.convolution({y.data() + first_row * c.cols + first_col, x.data(),
                               w.data() + first_col * window_size(c.pictures), b.data() + first_col, c.cols, first_row,
                               rows, cols, c.pictures, &scratch});
          return y.values();
        });
        for (std::int64_t i = 0; i < c.rows() * c.cols; ++i) {
          const std::int64_t row = i / c.cols - first_row, col = i % c.cols - first_col;
          const bool is_of_tile = row >= 0 && row < rows && col >= 0 && col < cols;
          const auto at = static_cast<std::size_t>(i);
          ASSERT_EQ(tile[at], is_of_tile ? whole[at] : 5.0f) << i;
        }
      }
    }
  }
}

TEST(Convolution, WindowsAreWrittenAndAddedWhereTheirPixelsLie) {
  Seeded random;
  for (const Case& c : cases()) {
    const ConvolutionOperands operands = operands_of(random, c);
    const std::int64_t first_row = c.rows() / 3, rows = c.rows() - first_row, depth = window_size(c.pictures);
    for (const std::int64_t first_col : {std::int64_t{0}, depth / 5}) {
      const std::int64_t cols = depth - first_col, stride = cols + 2;
      const WindowColumns a{nullptr, nullptr, stride, first_row, rows, first_col, cols, c.pictures};
      std::vector<float> truth(static_cast<std::size_t>(rows * stride), 3.0f);
      reference::window_columns(truth.data(), operands.x.data(), a);
      for (const Place place : kPlaces) {
        const auto columns = same_on_every_isa([&](const KernelTable& kernels) {
          Floats out(std::vector<float>(truth.size(), 3.0f), place), x(operands.x, place);
          WindowColumns b = a;
          b.columns = out.data();
          b.x = x.data();
          kernels.window_columns(b);
          return out.values();
        });
        ASSERT_EQ(first_different_bit(columns, truth), -1) << c;
      }
    }
    // Of one tap at a time.
    for (std::int64_t tap = 0; tap < kTaps; ++tap) {
      const std::int64_t channel = c.pictures.channels / 4, cols = c.pictures.channels - channel;
      const AddWindowColumns a{nullptr, nullptr,   cols, first_row, rows, tap * c.pictures.channels + channel,
                               cols,    c.pictures};
      const auto columns = normal(random, rows * cols);
      std::vector<float> truth = operands.x;
      reference::add_window_columns(truth.data(), columns.data(), a);
      const auto d_x = same_on_every_isa([&](const KernelTable& kernels) {
        Floats out(operands.x), in(columns);
        AddWindowColumns b = a;
        b.d_x = out.data();
        b.columns = in.data();
        kernels.add_window_columns(b);
        return out.values();
      });
      ASSERT_EQ(first_different_bit(d_x, truth), -1) << c << " tap " << tap;
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_convolution
