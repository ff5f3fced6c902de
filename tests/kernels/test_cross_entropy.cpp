// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/loss.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/dual.h"

namespace bascule::test::test_cross_entropy {
namespace {

constexpr std::int64_t kRows = 4;
constexpr float kSmoothings[] = {0.0f, 0.1f, 0.75f};

struct Inputs {
  std::int64_t cols;
  std::vector<float> logits;
  std::vector<std::int32_t> label;
  bool is_mixed = false;
  std::vector<std::int32_t> mixed_label = std::vector<std::int32_t>(kRows);  // row 0 with its own class
  std::vector<float> share = {0.25f, 0.5f, 0.0f, 0.875f};

  const std::int32_t* mixed() const { return is_mixed ? mixed_label.data() : nullptr; }
  const float* shares() const { return is_mixed ? share.data() : nullptr; }

  // Row 0 hits, row 1 is not counted, row 2 has its largest logit twice with the label at the second, row 3 is random.
  Inputs(Seeded& random, std::int64_t columns)
      : cols(columns), logits(normal(random, kRows * cols, 4.0)), label(kRows) {
    label[0] = static_cast<std::int32_t>(random.integer(0, cols - 1));
    label[1] = -100;
    label[2] = static_cast<std::int32_t>(cols - 1);
    label[3] = static_cast<std::int32_t>(random.integer(0, cols - 1));
    for (std::size_t r = 1; r < kRows; ++r) mixed_label[r] = static_cast<std::int32_t>(random.integer(0, cols - 1));
    mixed_label[0] = label[0];
    logits[static_cast<std::size_t>(label[0])] = 30.0f;
    logits[static_cast<std::size_t>(2 * cols)] = 25.0f;
    logits[static_cast<std::size_t>(3 * cols - 1)] = 25.0f;
  }
};

std::vector<std::int64_t> widths() {
  std::vector<std::int64_t> list = lengths(1);
  list.push_back(50265);
  return list;
}

// The sum of exponentials: each has 1.5 ulp and the rounding of its argument, |x - top| epsilon, weighed by itself, at
// most 1 in all; cols / 16 + 5 additions of what is at most `cols`. So its logarithm is within (cols / 16 + 10) epsilon
// and one rounding of its own; the loss adds its own. The errors are absolute where the logarithm is tiny. The mean of
// logits - top, all of one sign: a rounding of each, 16 + 6 additions within a block, and that of the smoothing.
void check_forward(const Inputs& in, float smoothing) {
  const std::int64_t cols = in.cols;
  std::vector<double> loss = zeros(kRows), top = zeros(kRows), others = zeros(kRows);
  std::vector<double> bound = zeros(kRows), others_bound = zeros(kRows);
  std::vector<std::int32_t> hit(kRows);
  reference::cross_entropy_forward(
      loss.data(), top.data(), others.data(), hit.data(), widened(in.logits).data(),
      {nullptr, nullptr, nullptr, nullptr, nullptr, in.label.data(), kRows, cols, smoothing, in.mixed(), in.shares()});
  for (std::size_t r = 0; r < kRows; ++r) {
    double below_top = 0.0;
    for (std::int64_t c = 0; c < cols; ++c)
      below_top +=
          top[r] - static_cast<double>(in.logits[r * static_cast<std::size_t>(cols) + static_cast<std::size_t>(c)]);
    const double of_mean =
        in.label[r] < 0 ? 0.0 : static_cast<double>(smoothing) * below_top / static_cast<double>(cols);
    bound[r] = kEpsilon * (static_cast<double>(cols) / 16 + 10 + 4 * std::abs(loss[r]) + 24 * of_mean);
    // Two logits less the largest have a rounding each, weighed by its share.
    if (in.is_mixed && in.label[r] >= 0) bound[r] += kEpsilon * 2 * below_top;
    others_bound[r] = kEpsilon * ((static_cast<double>(cols) / 16 + 9) * others[r] + 8);
  }
  EXPECT_EQ(hit[0], 1);
  EXPECT_EQ(hit[2], cols == 1 ? 1 : 0);
  for (const Place place : kPlaces) {
    const auto values = same_on_every_isa([&](const KernelTable& kernels) {
      Floats losses(kRows, place), tops(kRows, place), sums(kRows, place), logits(in.logits, place);
      std::vector<std::int32_t> hits(kRows, 7);
      kernels.cross_entropy_forward({losses.data(), tops.data(), sums.data(), hits.data(), logits.data(),
                                     in.label.data(), kRows, cols, smoothing, in.mixed(), in.shares()});
      EXPECT_EQ(hits, hit) << cols;
      return joined({losses.values(), tops.values(), sums.values()});
    });
    expect_within(values, 0, loss, bound, "loss");
    expect_within(values, kRows, top, zeros(kRows), "top");
    expect_within(values, 2 * kRows, others, others_bound, "others");
  }
}

TEST(CrossEntropy, ForwardIsWithinItsBoundAndHitsGoToTheFirstOfEqualLogits) {
  Seeded random;
  for (const std::int64_t cols : widths()) {
    Inputs in(random, cols);
    for (const float smoothing : kSmoothings) {
      for (const bool is_mixed : {false, true}) {
        in.is_mixed = is_mixed;
        check_forward(in, smoothing);
      }
    }
  }
}

TEST(CrossEntropy, HugeLogitsNeitherOverflowNorUnderflow) {
  const std::vector<float> logits = {3e38f, 0.0f, -3e38f, -3e38f, -3e38f, -3e38f};
  const std::int32_t label[2] = {0, 1};
  for (const Isa isa : isas()) {
    float loss[2], top[2], others[2];
    std::int32_t hit[2];
    kernels_for(isa).cross_entropy_forward({loss, top, others, hit, logits.data(), label, 2, 3, 0.0f});
    EXPECT_EQ(loss[0], 0.0f);
    EXPECT_EQ(top[0], 3e38f);
    EXPECT_EQ(others[0], 0.0f);
    EXPECT_NEAR(static_cast<double>(loss[1]), std::log(3.0), 1e-6);
  }
}

std::vector<double> gradient(const Inputs& in, double scale, float smoothing = 0.0f) {
  std::vector<double> loss = zeros(kRows), top = zeros(kRows), others = zeros(kRows), d = zeros(kRows * in.cols);
  std::vector<std::int32_t> hit(kRows);
  const std::vector<double> logits = widened(in.logits);
  reference::cross_entropy_forward(loss.data(), top.data(), others.data(), hit.data(), logits.data(),
                                   {nullptr, nullptr, nullptr, nullptr, nullptr, in.label.data(), kRows, in.cols,
                                    smoothing, in.mixed(), in.shares()});
  reference::cross_entropy_backward(
      d.data(), logits.data(), top.data(), others.data(),
      {nullptr, nullptr, nullptr, nullptr, in.label.data(), kRows, in.cols, 1.0f, smoothing, in.mixed(), in.shares()});
  for (double& value : d) value *= scale;
  return d;
}

// The truth is float64's own, from the logits alone. exp has 1.5 ulp (3 epsilon) and the rounding of its argument; the
// sum the same, weighed by its terms, and cols / 16 + 5 additions; the quotient and the product two more. At the label
// the sum of the others takes the place of the exponential. Smoothing takes away a share: of the label's element all of
// it but one. Where labels are mixed, up to all of the scale goes from one label's element to the other's.
void check_backward(const Inputs& in, Place place, float smoothing) {
  const std::int64_t n = kRows * in.cols;
  const float scale = 0.37f;
  const std::vector<double> truth = gradient(in, static_cast<double>(scale), smoothing);
  std::vector<double> bound = zeros(n);
  for (std::size_t r = 0; r < kRows; ++r) {
    const auto row = in.logits.begin() + static_cast<std::ptrdiff_t>(r) * in.cols;
    const auto [low, top] = std::minmax_element(row, row + in.cols);
    const double factor = kEpsilon * (20 + static_cast<double>(in.cols) / 16 + 2 * static_cast<double>(*top - *low));
    for (std::size_t c = 0; c < static_cast<std::size_t>(in.cols); ++c) {
      const std::size_t i = r * static_cast<std::size_t>(in.cols) + c;
      const bool is_label = static_cast<std::int32_t>(c) == in.label[r];
      double taken =
          static_cast<double>(scale) * static_cast<double>(smoothing) / (is_label ? 1.0 : static_cast<double>(in.cols));
      if (in.is_mixed && (is_label || static_cast<std::int32_t>(c) == in.mixed_label[r]))
        taken += static_cast<double>(scale);
      bound[i] = factor * (std::abs(truth[i]) + (in.label[r] < 0 ? 0.0 : 2 * taken)) + 0x1p-148;
    }
  }
  const auto run = [&](const KernelTable& kernels, bool in_place) {
    Floats d(n, place), logits(in.logits, place), loss(kRows), top(kRows, place), others(kRows, place);
    std::vector<std::int32_t> hit(kRows);
    kernels.cross_entropy_forward({loss.data(), top.data(), others.data(), hit.data(), logits.data(), in.label.data(),
                                   kRows, in.cols, smoothing, in.mixed(), in.shares()});
    Floats& out = in_place ? logits : d;
    kernels.cross_entropy_backward({out.data(), logits.data(), top.data(), others.data(), in.label.data(), kRows,
                                    in.cols, scale, smoothing, in.mixed(), in.shares()});
    return out.values();
  };
  const auto values = same_on_every_isa([&](const KernelTable& kernels) { return run(kernels, false); });
  expect_within(values, 0, truth, bound, "d_logits");
  for (const Isa isa : isas()) EXPECT_EQ(first_different_bit(values, run(kernels_for(isa), true)), -1);
}

TEST(CrossEntropy, BackwardIsWithinItsBoundAlsoInPlace) {
  Seeded random;
  for (const std::int64_t cols : widths()) {
    Inputs in(random, cols);
    for (const float smoothing : kSmoothings) {
      for (const bool is_mixed : {false, true}) {
        in.is_mixed = is_mixed;
        for (const Place place : kPlaces) check_backward(in, place, smoothing);
      }
    }
  }
}

// The formula of torch.nn.functional.cross_entropy's gradient in float32: exp(logits - max - log(sum)) * scale, and at
// the label minus scale; here with sums in float64, which is kinder to it than any order of float32 sums.
std::vector<float> gradient_of_pytorch(const Inputs& in, float scale) {
  std::vector<float> d(in.logits.size(), 0.0f);
  for (std::size_t r = 0; r < kRows; ++r) {
    if (in.label[r] < 0) continue;
    const auto row = in.logits.begin() + static_cast<std::ptrdiff_t>(r) * in.cols;
    const float top = *std::max_element(row, row + in.cols);
    double sum = 0.0;
    for (std::int64_t c = 0; c < in.cols; ++c) sum += static_cast<double>(std::exp(row[c] - top));
    const float log_sum = std::log(static_cast<float>(sum));
    for (std::int64_t c = 0; c < in.cols; ++c) {
      const float p = std::exp(row[c] - top - log_sum);
      d[r * static_cast<std::size_t>(in.cols) + static_cast<std::size_t>(c)] =
          p * scale - (c == in.label[r] ? scale : 0.0f);
    }
  }
  return d;
}

std::vector<float> gradient_of_kernels(const Inputs& in, float scale) {
  return same_on_every_isa([&](const KernelTable& kernels) {
    Floats d(kRows * in.cols), logits(in.logits), loss(kRows), top(kRows), others(kRows);
    std::vector<std::int32_t> hit(kRows);
    kernels.cross_entropy_forward(
        {loss.data(), top.data(), others.data(), hit.data(), logits.data(), in.label.data(), kRows, in.cols, 0.0f});
    kernels.cross_entropy_backward(
        {d.data(), logits.data(), top.data(), others.data(), in.label.data(), kRows, in.cols, scale, 0.0f});
    return d.values();
  });
}

// Sums over the rows of squared relative errors: of the element at the label, and of the others together.
struct SquaredErrors {
  double label = 0.0, others = 0.0;

  void add(const std::vector<float>& values, const std::vector<double>& truth, const Inputs& in) {
    for (std::ptrdiff_t r = 0; r < kRows; ++r) {
      std::vector<float> row(values.begin() + r * in.cols, values.begin() + (r + 1) * in.cols);
      std::vector<double> expected(truth.begin() + r * in.cols, truth.begin() + (r + 1) * in.cols);
      const std::ptrdiff_t at = in.label[static_cast<std::size_t>(r)];
      const double error =
          ulp_error(row[static_cast<std::size_t>(at)], expected[static_cast<std::size_t>(at)]) * kEpsilon;
      label += error * error;
      row.erase(row.begin() + at);
      expected.erase(expected.begin() + at);
      const double rest = relative_l2(row, expected);
      others += rest * rest;
    }
  }
};

TEST(CrossEntropy, GradientsOfConfidentLogitsAreAsAccurateAsThoseOfPyTorch) {
  Seeded random;
  for (const std::int64_t cols : {2, 19, 1000}) {
    for (const double offset : {0.0, 40.0, 1000.0, -1000.0}) {
      SquaredErrors ours, theirs;
      for (int repetition = 0; repetition < 20; ++repetition) {
        Inputs in(random, cols);
        in.logits = normal(random, kRows * cols, 2.0, offset);
        for (std::size_t r = 0; r < kRows; ++r) {
          in.label[r] = static_cast<std::int32_t>(random.integer(0, cols - 1));
          in.logits[r * static_cast<std::size_t>(cols) + static_cast<std::size_t>(in.label[r])] +=
              static_cast<float>(4 + 5 * r);
        }
        const std::vector<double> truth = gradient(in, 0.25);
        ours.add(gradient_of_kernels(in, 0.25f), truth, in);
        theirs.add(gradient_of_pytorch(in, 0.25f), truth, in);
      }
      EXPECT_LE(std::sqrt(ours.label / theirs.label), 1.2) << "cols " << cols << ", offset " << offset;
      EXPECT_LE(std::sqrt(ours.others / theirs.others), 1.2) << "cols " << cols << ", offset " << offset;
    }
  }
}

TEST(CrossEntropy, BackwardReferenceIsTheDerivativeOfTheForwardOne) {
  Seeded random;
  const Inputs in(random, 6);
  for (const float smoothing : kSmoothings) {
    const CrossEntropyForward sizes{nullptr, nullptr, nullptr, nullptr, nullptr, in.label.data(), kRows, 6, smoothing};
    std::int32_t hit[kRows];
    const std::vector<double> d = gradient(in, 1.0, smoothing);
    for (std::size_t i = 0; i < in.logits.size(); ++i) {
      std::vector<Dual> moved = constants(in.logits), losses(kRows), tops(kRows), others(kRows);
      moved[i].derivative = 1.0;
      reference::cross_entropy_forward(losses.data(), tops.data(), others.data(), hit, moved.data(), sizes);
      EXPECT_NEAR((losses[0] + losses[1] + losses[2] + losses[3]).derivative, d[i], 1e-12);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_cross_entropy
