// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/loss.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/dual.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kRows = 4;

struct Inputs {
  std::int64_t cols;
  std::vector<float> logits;
  std::vector<std::int32_t> label;

  // Row 0 hits, row 1 is not counted, row 2 has its largest logit twice with the label at the second, row 3 is random.
  Inputs(Seeded& random, std::int64_t columns)
      : cols(columns), logits(normal(random, kRows * cols, 4.0)), label(kRows) {
    label[0] = static_cast<std::int32_t>(random.integer(0, cols - 1));
    label[1] = -100;
    label[2] = static_cast<std::int32_t>(cols - 1);
    label[3] = static_cast<std::int32_t>(random.integer(0, cols - 1));
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
// most 1 in all; cols / 16 + 4 additions. So log_sum is within s = (cols / 16 + 9) epsilon and one rounding of its own;
// loss and logsumexp add their own. Plus, where log_sum is tiny, nothing: the errors are absolute.
TEST(CrossEntropy, ForwardIsWithinItsBoundAndHitsGoToTheFirstOfEqualLogits) {
  Seeded random;
  for (const std::int64_t cols : widths()) {
    const Inputs in(random, cols);
    std::vector<double> loss = zeros(kRows), logsumexp = zeros(kRows), bound = zeros(kRows);
    std::vector<std::int32_t> hit(kRows);
    reference::cross_entropy_forward(loss.data(), logsumexp.data(), hit.data(), widened(in.logits).data(),
                                     {nullptr, nullptr, nullptr, nullptr, in.label.data(), kRows, cols});
    for (std::size_t r = 0; r < kRows; ++r) {
      bound[r] = kEpsilon * (static_cast<double>(cols) / 16 + 9 + 2 * std::abs(loss[r]) + 2 * std::abs(logsumexp[r]));
    }
    EXPECT_EQ(hit[0], 1);
    EXPECT_EQ(hit[2], cols == 1 ? 1 : 0);
    for (const Place place : kPlaces) {
      const auto values = same_on_every_isa([&](const KernelTable& kernels) {
        Floats losses(kRows, place), sums(kRows, place), logits(in.logits, place);
        std::vector<std::int32_t> hits(kRows, 7);
        kernels.cross_entropy_forward(
            {losses.data(), sums.data(), hits.data(), logits.data(), in.label.data(), kRows, cols});
        EXPECT_EQ(hits, hit) << cols;
        return joined({losses.values(), sums.values()});
      });
      expect_within(values, 0, loss, bound, "loss");
      expect_within(values, kRows, logsumexp, bound, "logsumexp");
    }
  }
}

TEST(CrossEntropy, HugeLogitsNeitherOverflowNorUnderflow) {
  const std::vector<float> logits = {3e38f, 0.0f, -3e38f, -3e38f, -3e38f, -3e38f};
  const std::int32_t label[2] = {0, 1};
  for (const Isa isa : isas()) {
    float loss[2], logsumexp[2];
    std::int32_t hit[2];
    kernels_for(isa).cross_entropy_forward({loss, logsumexp, hit, logits.data(), label, 2, 3});
    EXPECT_EQ(loss[0], 0.0f);
    EXPECT_EQ(logsumexp[0], 3e38f);
    EXPECT_NEAR(static_cast<double>(loss[1]), std::log(3.0), 1e-6);
  }
}

// exp has 1.5 ulp (3 epsilon) and the rounding of its argument; - 1 at the label one more, * scale one.
void check_backward(const Inputs& in, Place place) {
  const std::int64_t n = kRows * in.cols;
  const float scale = 0.37f;
  std::vector<float> logsumexp(kRows), loss(kRows);
  std::vector<std::int32_t> hit(kRows);
  kernels_for(isas()[0]).cross_entropy_forward(
      {loss.data(), logsumexp.data(), hit.data(), in.logits.data(), in.label.data(), kRows, in.cols});
  const CrossEntropyBackward sizes{nullptr, nullptr, nullptr, in.label.data(), kRows, in.cols, scale};
  std::vector<double> truth = zeros(n), bound = zeros(n);
  reference::cross_entropy_backward(truth.data(), widened(in.logits).data(), widened(logsumexp).data(), sizes);
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const std::size_t r = i / static_cast<std::size_t>(in.cols);
    const double argument = static_cast<double>(in.logits[i]) - static_cast<double>(logsumexp[r]);
    const bool at_label = static_cast<std::int64_t>(i % static_cast<std::size_t>(in.cols)) == in.label[r];
    const double p = std::exp(std::min(argument, 0.0)) * static_cast<double>(scale);
    bound[i] = kEpsilon * ((5 + std::abs(argument)) * p + (at_label ? 2.0 : 0.0)) + 0x1p-149;
  }
  const auto run = [&](const KernelTable& kernels, bool in_place) {
    Floats d(n, place), logits(in.logits, place), sums(logsumexp, place);
    Floats& out = in_place ? logits : d;
    kernels.cross_entropy_backward({out.data(), logits.data(), sums.data(), in.label.data(), kRows, in.cols, scale});
    return out.values();
  };
  const auto values = same_on_every_isa([&](const KernelTable& kernels) { return run(kernels, false); });
  expect_within(values, 0, truth, bound, "d_logits");
  for (const Isa isa : isas()) EXPECT_EQ(first_different_bit(values, run(kernels_for(isa), true)), -1);
}

TEST(CrossEntropy, BackwardIsWithinItsBoundAlsoInPlace) {
  Seeded random;
  for (const std::int64_t cols : widths()) {
    const Inputs in(random, cols);
    for (const Place place : kPlaces) check_backward(in, place);
  }
}

TEST(CrossEntropy, BackwardReferenceIsTheDerivativeOfTheForwardOne) {
  Seeded random;
  const Inputs in(random, 6);
  std::vector<double> loss = zeros(kRows), logsumexp = zeros(kRows), d = zeros(kRows * 6);
  std::int32_t hit[kRows];
  const CrossEntropyForward sizes{nullptr, nullptr, nullptr, nullptr, in.label.data(), kRows, 6};
  reference::cross_entropy_forward(loss.data(), logsumexp.data(), hit, widened(in.logits).data(), sizes);
  reference::cross_entropy_backward(d.data(), widened(in.logits).data(), logsumexp.data(),
                                    {nullptr, nullptr, nullptr, in.label.data(), kRows, 6, 1.0f});
  for (std::size_t i = 0; i < in.logits.size(); ++i) {
    std::vector<Dual> moved = constants(in.logits), losses(kRows), sums(kRows);
    moved[i].derivative = 1.0;
    reference::cross_entropy_forward(losses.data(), sums.data(), hit, moved.data(), sizes);
    EXPECT_NEAR((losses[0] + losses[1] + losses[2] + losses[3]).derivative, d[i], 1e-12);
  }
}

}  // namespace
}  // namespace bascule::test
