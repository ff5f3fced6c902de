// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/pooling.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_pooling {
namespace {

// Samples of equal numbers of rows, and, without those, of ragged ones: one row, a block of the mean's sum, a block and
// one, several.
struct Pools {
  std::int64_t rows = 0;
  std::vector<std::int32_t> offsets;

  std::int64_t samples() const { return offsets.empty() ? 4 : static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t all_rows() const { return offsets.empty() ? samples() * rows : offsets.back(); }
  const std::int32_t* data() const { return offsets.empty() ? nullptr : offsets.data(); }
};

const std::vector<Pools>& all_pools() {
  static const std::vector<Pools> all = {{1, {}}, {16, {}}, {17, {}}, {50, {}}, {0, {0, 1, 17, 34, 84, 86}}};
  return all;
}

// Samples are done one after another, in two calls: a task of an operation has some of them.
template <typename Arguments>
void in_two_parts(void (*kernel)(const Arguments&), Arguments a, std::int64_t samples) {
  a.last_sample = samples / 2;
  kernel(a);
  a.first_sample = samples / 2;
  a.last_sample = samples;
  kernel(a);
}

// A sum of n numbers has n - 1 roundings of the largest partial sum; the mean one more.
TEST(Pooling, MeanRowsAndItsGradientAreWithinTheirBounds) {
  Seeded random;
  for (const Pools& pools : all_pools()) {
    const std::int64_t samples = pools.samples(), all = pools.all_rows(), rows = pools.rows;
    for (const std::int64_t cols : lengths(1)) {
      const auto x = normal(random, all * cols), d_out = normal(random, samples * cols);
      std::vector<double> mean = zeros(samples * cols), d_x = widened(x), alone = zeros(all * cols);
      const MeanRowsForward forward{nullptr, nullptr, pools.data(), 0, samples, rows, cols};
      const MeanRowsBackward backward{nullptr, nullptr, pools.data(), 0, samples, rows, cols, true};
      MeanRowsBackward overwriting = backward;
      overwriting.accumulate = false;
      reference::mean_rows_forward(mean.data(), widened(x).data(), forward);
      reference::mean_rows_backward(d_x.data(), widened(d_out).data(), backward);
      reference::mean_rows_backward(alone.data(), widened(d_out).data(), overwriting);
      for (const Place place : kPlaces) {
        const auto values = same_on_every_isa([&](const KernelTable& kernels) {
          Floats out(samples * cols, place), in(x, place), d(d_out, place), written(all * cols, place);
          in_two_parts(kernels.mean_rows_forward, {out.data(), in.data(), pools.data(), 0, 0, rows, cols}, samples);
          in_two_parts(kernels.mean_rows_backward, {written.data(), d.data(), pools.data(), 0, 0, rows, cols, false},
                       samples);
          in_two_parts(kernels.mean_rows_backward, {in.data(), d.data(), pools.data(), 0, 0, rows, cols, true},
                       samples);
          return joined({out.values(), in.values(), written.values()});
        });
        const double bound = kEpsilon * 8.0 * 8.0;  // 8 sigma, sums of 16 rows and of these, less in the mean
        expect_within(values, 0, mean, std::vector<double>(mean.size(), bound), "mean");
        expect_within(values, mean.size(), d_x, std::vector<double>(d_x.size(), bound), "d_x");
        expect_within(values, mean.size() + d_x.size(), alone, std::vector<double>(alone.size(), 2 * kEpsilon * 8.0),
                      "d_x alone");
      }
    }
  }
}

// Small integers, so that many rows are equal: the first has the gradient.
TEST(Pooling, MaxRowsAndItsGradientAreThoseOfTheFirstLargestRow) {
  Seeded random;
  for (const Pools& pools : all_pools()) {
    const std::int64_t samples = pools.samples(), all = pools.all_rows(), rows = pools.rows;
    for (const std::int64_t cols : lengths(1)) {
      std::vector<float> x = normal(random, all * cols);
      for (float& value : x) value = std::round(value);
      const auto d_out = normal(random, samples * cols);
      std::vector<float> largest(static_cast<std::size_t>(samples * cols)), d_x = x, alone = x;
      std::vector<std::int32_t> row(largest.size());
      const MaxRowsForward forward{nullptr, nullptr, nullptr, pools.data(), 0, samples, rows, cols};
      MaxRowsBackward backward{nullptr, nullptr, nullptr, pools.data(), 0, samples, rows, cols, true};
      reference::max_rows_forward(largest.data(), row.data(), x.data(), forward);
      reference::max_rows_backward(d_x.data(), d_out.data(), row.data(), backward);
      backward.accumulate = false;
      reference::max_rows_backward(alone.data(), d_out.data(), row.data(), backward);
      for (const Place place : kPlaces) {
        const auto values = same_on_every_isa([&](const KernelTable& kernels) {
          Floats out(samples * cols, place), in(x, place), d(d_out, place), added(x, place), written(all * cols, place);
          std::vector<std::int32_t> found(row.size());
          in_two_parts(kernels.max_rows_forward, {out.data(), found.data(), in.data(), pools.data(), 0, 0, rows, cols},
                       samples);
          EXPECT_EQ(found, row) << cols;
          in_two_parts(kernels.max_rows_backward,
                       {added.data(), d.data(), found.data(), pools.data(), 0, 0, rows, cols, true}, samples);
          in_two_parts(kernels.max_rows_backward,
                       {written.data(), d.data(), found.data(), pools.data(), 0, 0, rows, cols, false}, samples);
          return joined({out.values(), added.values(), written.values()});
        });
        EXPECT_EQ(first_different_bit(values, joined({largest, d_x, alone})), -1) << cols;
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_pooling
