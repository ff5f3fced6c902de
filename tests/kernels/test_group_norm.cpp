// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/norms.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_group_norm {
namespace {

struct Case {
  std::int64_t samples, rows, channels, groups, block_rows;
  double offset = 0.0;  // of all elements
  std::int64_t blocks() const { return (rows + block_rows - 1) / block_rows; }
  std::int64_t elements() const { return samples * rows * channels; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.samples << " of " << c.rows << " x " << c.channels << " in " << c.groups << " groups, blocks of "
             << c.block_rows << ", mean " << c.offset;
}

// Calls step(sample, block, its first row, its rows) for all blocks.
template <typename Step>
void for_blocks(const Case& c, const Step& step) {
  for (std::int64_t s = 0; s < c.samples; ++s) {
    for (std::int64_t b = 0; b < c.blocks(); ++b) {
      const std::int64_t first = b * c.block_rows;
      step(s, s * c.blocks() + b, s * c.rows + first, std::min(c.block_rows, c.rows - first));
    }
  }
}

// y and statistics, as the operation computes them.
std::vector<float> forward_of(const KernelTable& kernels, const Case& c, const std::vector<float>& x,
                              const std::vector<float>& gamma, const std::vector<float>& beta, bool silu, Place place) {
  Floats in(x, place), y(c.elements(), place), parts(c.samples * c.blocks() * 3 * c.channels, place),
      statistics(c.samples * 2 * c.channels, place), g(gamma, place), b(beta, place);
  for_blocks(c, [&](std::int64_t, std::int64_t block, std::int64_t row, std::int64_t rows) {
    kernels.group_norm_sums({parts.data() + block * 3 * c.channels, in.data() + row * c.channels, rows, c.channels});
  });
  for (std::int64_t i = 0; i < c.samples * c.groups; i += 3) {
    kernels.group_norm_statistics({statistics.data(), parts.data(), i,
                                   std::min<std::int64_t>(3, c.samples * c.groups - i), c.rows, c.block_rows,
                                   c.channels, c.groups, 1e-5f});
  }
  for_blocks(c, [&](std::int64_t s, std::int64_t, std::int64_t row, std::int64_t rows) {
    kernels.group_norm_forward({y.data() + row * c.channels, in.data() + row * c.channels,
                                statistics.data() + s * 2 * c.channels, g.data(), b.data(), rows, c.channels, silu});
  });
  return joined({y.values(), statistics.values()});
}

// From the equations, in float64.
std::vector<double> truth_of(const Case& c, const std::vector<float>& x, const std::vector<float>& gamma,
                             const std::vector<float>& beta, bool silu) {
  std::vector<double> y = widened(x), statistics;
  const std::int64_t width = c.channels / c.groups;
  statistics.resize(static_cast<std::size_t>(c.samples * 2 * c.channels));
  for (std::int64_t s = 0; s < c.samples; ++s) {
    for (std::int64_t g = 0; g < c.groups; ++g) {
      const auto at = [&](std::int64_t i) {
        return static_cast<std::size_t>((s * c.rows + i / width) * c.channels + g * width + i % width);
      };
      double mean = 0.0, variance = 0.0;
      const std::int64_t count = c.rows * width;
      for (std::int64_t i = 0; i < count; ++i) mean += y[at(i)];
      mean /= static_cast<double>(count);
      for (std::int64_t i = 0; i < count; ++i) variance += (y[at(i)] - mean) * (y[at(i)] - mean);
      const double rstd = 1.0 / std::sqrt(variance / static_cast<double>(count) + static_cast<double>(1e-5f));
      for (std::int64_t i = 0; i < count; ++i) {
        const auto channel = static_cast<std::size_t>(g * width + i % width);
        const double z =
            (y[at(i)] - mean) * rstd * static_cast<double>(gamma[channel]) + static_cast<double>(beta[channel]);
        y[at(i)] = silu ? z / (1.0 + std::exp(-z)) : z;
      }
      for (std::int64_t i = 0; i < width; ++i) {
        const auto channel = static_cast<std::size_t>(s * 2 * c.channels + g * width + i);
        statistics[channel] = mean;
        statistics[channel + static_cast<std::size_t>(c.channels)] = rstd;
      }
    }
  }
  y.insert(y.end(), statistics.begin(), statistics.end());
  return y;
}

// Elements have a deviation of 1. The mean has the error of its own rounding and of two of an element, rstd of a few. y
// has that of the mean, scaled, and a few of its terms.
std::vector<double> forward_bound(const Case& c, const std::vector<float>& x, const std::vector<float>& gamma,
                                  const std::vector<float>& beta, const std::vector<double>& truth) {
  std::vector<double> bound(truth.size());
  const std::size_t elements = x.size(), channels = gamma.size();
  for (std::size_t i = elements; i < truth.size(); ++i) {
    const bool is_rstd = (i - elements) / channels % 2 == 1;
    bound[i] = kEpsilon * (is_rstd ? 4.0 * truth[i] : 2.0 + std::fabs(truth[i]));
  }
  for (std::size_t i = 0; i < elements; ++i) {
    const std::size_t channel = i % channels, sample = i / (static_cast<std::size_t>(c.rows) * channels);
    const std::size_t at = elements + sample * 2 * channels + channel;
    const double mean = truth[at], rstd = truth[at + channels], gain = std::fabs(static_cast<double>(gamma[channel]));
    const double normal = std::fabs(static_cast<double>(x[i]) - mean) * rstd;
    bound[i] = kEpsilon * (1.1 * gain * rstd * (2.0 + std::fabs(mean)) +
                           8.0 * (gain * normal + std::fabs(static_cast<double>(beta[channel])) + std::fabs(truth[i])));
  }
  return bound;
}

void expect_forward(const Case& c, Place place, Seeded& random) {
  const auto x = normal(random, c.elements(), 1.0, c.offset);
  const auto gamma = normal(random, c.channels), beta = normal(random, c.channels);
  for (const bool silu : {false, true}) {
    const auto values = same_on_every_isa(
        [&](const KernelTable& kernels) { return forward_of(kernels, c, x, gamma, beta, silu, place); });
    const std::vector<double> truth = truth_of(c, x, gamma, beta, silu);
    expect_within(values, 0, truth, forward_bound(c, x, gamma, beta, truth), "y and statistics");
  }
}

TEST(GroupNorm, ForwardIsWithinItsBound) {
  Seeded random;
  for (const std::int64_t channels : {1, 3, 4, 17, 34}) {
    for (const std::int64_t groups : {std::int64_t{1}, channels}) {
      for (const Place place : kPlaces) {
        for (const std::int64_t rows : {1, 5, 6, 40}) {
          const Case c{3, rows, channels, groups, 8};
          SCOPED_TRACE(::testing::Message() << c);
          expect_forward(c, place, random);
        }
      }
    }
  }
}

// Groups of 1, 10, 20, 40 and 80 channels, pictures of a model, and means far from zero.
TEST(GroupNorm, LongSumsAreAsAccurateAsShortOnes) {
  Seeded random;
  const auto expect = [&](Case c, double offset) {
    c.offset = offset;
    SCOPED_TRACE(::testing::Message() << c);
    expect_forward(c, Place::kBeforeGuard, random);
  };
  for (const double offset : {0.0, 3.0, -1000.0}) {
    for (const Case& shape :
         {Case{1, 4096, 32, 4, 96}, Case{1, 256, 640, 8, 8}, Case{2, 64, 320, 8, 24}, Case{1, 16384, 8, 8, 256}})
      expect(shape, offset);
  }
  expect({1, 262144, 4, 1, 256}, -1000.0);
}

// What a float32 sum of equal numbers loses does not show: the mean is the number, and nothing is left of the sample.
TEST(GroupNorm, AConstantPictureHasItsConstantAsMean) {
  Seeded random;
  for (const float constant : {0.1f, -1000.1f}) {
    const Case c{2, 1000, 6, 3, 256};
    const std::vector<float> x(static_cast<std::size_t>(c.elements()), constant);
    const auto gamma = normal(random, c.channels), beta = normal(random, c.channels);
    const auto values = same_on_every_isa(
        [&](const KernelTable& kernels) { return forward_of(kernels, c, x, gamma, beta, false, kPlaces[0]); });
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(values[i], beta[i % beta.size()]) << constant;
    ASSERT_EQ(values[x.size()], constant);
  }
}

// d_x, parts and means, as the operation computes them.
std::vector<float> backward_of(const KernelTable& kernels, const Case& c, const std::vector<float>& d_y,
                               const std::vector<float>& x, const std::vector<float>& statistics,
                               const std::vector<float>& gamma, const std::vector<float>& beta,
                               const std::vector<float>& before, bool silu, bool accumulate, Place place) {
  Floats d(d_y, place), in(x, place), s(statistics, place), g(gamma, place), b(beta, place), d_x(before, place),
      parts(c.samples * c.blocks() * 2 * c.channels, place), means(c.samples * 2 * c.channels, place);
  for_blocks(c, [&](std::int64_t sample, std::int64_t block, std::int64_t row, std::int64_t rows) {
    kernels.group_norm_backward_sums({parts.data() + block * 2 * c.channels, d.data() + row * c.channels,
                                      in.data() + row * c.channels, s.data() + sample * 2 * c.channels, g.data(),
                                      b.data(), rows, c.channels, silu});
  });
  for (std::int64_t i = 0; i < c.samples * c.groups; ++i)
    kernels.group_norm_backward_means(
        {means.data(), parts.data(), g.data(), i, 1, c.rows, c.blocks(), c.channels, c.groups});
  for_blocks(c, [&](std::int64_t sample, std::int64_t, std::int64_t row, std::int64_t rows) {
    kernels.group_norm_backward({d_x.data() + row * c.channels, d.data() + row * c.channels,
                                 in.data() + row * c.channels, s.data() + sample * 2 * c.channels,
                                 means.data() + sample * 2 * c.channels, g.data(), b.data(), rows, c.channels, silu,
                                 accumulate});
  });
  return joined({d_x.values(), parts.values(), means.values()});
}

// The reference in float64, from the same statistics.
std::vector<double> backward_truth(const Case& c, const std::vector<double>& d_y, const std::vector<double>& x,
                                   const std::vector<double>& statistics, const std::vector<double>& gamma,
                                   const std::vector<double>& beta, std::vector<double> d_x, bool silu,
                                   bool accumulate) {
  std::vector<double> parts = zeros(c.samples * c.blocks() * 2 * c.channels), means = zeros(c.samples * 2 * c.channels);
  for_blocks(c, [&](std::int64_t sample, std::int64_t block, std::int64_t row, std::int64_t rows) {
    reference::group_norm_backward_sums(parts.data() + block * 2 * c.channels, d_y.data() + row * c.channels,
                                        x.data() + row * c.channels, statistics.data() + sample * 2 * c.channels,
                                        gamma.data(), beta.data(),
                                        {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, rows, c.channels, silu});
  });
  reference::group_norm_backward_means(
      means.data(), parts.data(), gamma.data(),
      {nullptr, nullptr, nullptr, 0, c.samples * c.groups, c.rows, c.blocks(), c.channels, c.groups});
  for_blocks(c, [&](std::int64_t sample, std::int64_t, std::int64_t row, std::int64_t rows) {
    reference::group_norm_backward(
        d_x.data() + row * c.channels, d_y.data() + row * c.channels, x.data() + row * c.channels,
        statistics.data() + sample * 2 * c.channels, means.data() + sample * 2 * c.channels, gamma.data(), beta.data(),
        {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, rows, c.channels, silu, accumulate});
  });
  d_x.insert(d_x.end(), parts.begin(), parts.end());
  d_x.insert(d_x.end(), means.begin(), means.end());
  return d_x;
}

// Elements are of a few units, and each sum of at most 40 rows and 34 channels; 64 roundings are far below any error of
// a formula.
TEST(GroupNorm, BackwardIsWithinItsBound) {
  Seeded random;
  for (const std::int64_t channels : {1, 3, 4, 17, 34}) {
    for (const std::int64_t groups : {std::int64_t{1}, channels}) {
      for (const std::int64_t rows : {1, 6, 40}) {
        const Case c{2, rows, channels, groups, 8, 1.5};
        SCOPED_TRACE(::testing::Message() << c);
        const auto x = normal(random, c.elements(), 1.0, c.offset), d_y = normal(random, c.elements()),
                   before = normal(random, c.elements()), gamma = normal(random, channels),
                   beta = normal(random, channels);
        // Statistics that any x could have: the formulas hold for all.
        auto statistics = normal(random, c.samples * 2 * channels, 0.2, 1.2);
        for (const bool silu : {false, true}) {
          for (const bool accumulate : {false, true}) {
            const auto truth = backward_truth(c, widened(d_y), widened(x), widened(statistics), widened(gamma),
                                              widened(beta), widened(before), silu, accumulate);
            for (const Place place : kPlaces) {
              const auto values = same_on_every_isa([&](const KernelTable& kernels) {
                return backward_of(kernels, c, d_y, x, statistics, gamma, beta, before, silu, accumulate, place);
              });
              double largest = 1.0;
              for (const double value : truth) largest = std::max(largest, std::fabs(value));
              expect_within(values, 0, truth, std::vector<double>(truth.size(), 64.0 * kEpsilon * largest), "backward");
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_group_norm
