// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/norms.h"
#include "tests/kernels/kernel_test.h"
#include "tests/kernels/norm_cases.h"
#include "tests/support/dual.h"

namespace bascule::test::test_rms_norm {
namespace {

constexpr std::int64_t kRows = kNormRows;

struct Inputs {
  std::int64_t cols;
  std::vector<float> x, h, gamma, d_sum, d_y;

  Inputs(Seeded& random, std::int64_t columns)
      : cols(columns),
        x(normal(random, kRows * cols, 2.0, 0.5)),
        h(normal(random, kRows * cols)),
        gamma(normal(random, cols, 0.3, 1.0)),
        d_sum(normal(random, kRows * cols)),
        d_y(normal(random, kRows * cols)) {}
};

RowNormForward forward_arguments(const Inputs& in, Residual residual) {
  RowNormForward a{};
  a.row_keys = kNormRowKeys;
  a.rows = kRows;
  a.cols = in.cols;
  a.epsilon = 1e-6f;
  if (residual == Residual::kDropped) a.dropout = tenth();
  return a;
}

// y, rstd, and the sum where there is one. `sum_is_h`: the sum is written over h.
std::vector<float> run_forward(const KernelTable& kernels, const Inputs& in, Residual residual, Place place,
                               bool sum_is_h) {
  RowNormForward a = forward_arguments(in, residual);
  Floats y(kRows * in.cols, place), sum(kRows * in.cols, place), rstd(kRows, place);
  Floats x(in.x, place), h(in.h, place), gamma(in.gamma, place);
  const bool has_sum = residual != Residual::kNone;
  a.y = y.data();
  a.sum = has_sum ? (sum_is_h ? h.data() : sum.data()) : nullptr;
  a.rstd = rstd.data();
  a.x = x.data();
  a.h = has_sum ? h.data() : nullptr;
  a.gamma = gamma.data();
  kernels.rms_norm_forward(a);
  const std::vector<float> sums = has_sum ? (sum_is_h ? h.values() : sum.values()) : std::vector<float>();
  return joined({y.values(), rstd.values(), sums});
}

struct ForwardTruth {
  std::vector<double> y, sum, rstd;
};

ForwardTruth forward_truth(const Inputs& in, Residual residual) {
  const std::int64_t n = kRows * in.cols;
  ForwardTruth t{zeros(n), zeros(n), zeros(kRows)};
  const std::vector<double> x = widened(in.x), h = widened(in.h), gamma = widened(in.gamma);
  reference::rms_norm_forward(t.y.data(), t.sum.data(), t.rstd.data(), x.data(),
                              residual == Residual::kNone ? nullptr : h.data(), gamma.data(),
                              forward_arguments(in, residual));
  return t;
}

// To first order, in units of epsilon, with A the largest |x| + 2 |h| of the row and depth the additions that a term
// goes through:
//   sum       3 A: a product, a sum, and what scale / threshold lost
//   rstd      relative: half of the mean square's, which is depth + 4 roundings, and the sums' errors, at most
//             6 A rstd: v = (depth + 4) / 2 + 6 A rstd
//   y         |gamma| (3 A rstd + |n| (v + 2))
struct ForwardBound {
  std::vector<double> y, sum, rstd;
};

ForwardBound forward_bound(const Inputs& in, const ForwardTruth& t) {
  const std::int64_t n = kRows * in.cols;
  ForwardBound bound{zeros(n), zeros(n), zeros(kRows)};
  const double depth = static_cast<double>(in.cols) / 16 + 6;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::size_t row = static_cast<std::size_t>(r);
    double largest = 0.0;
    for (std::int64_t c = 0; c < in.cols; ++c) {
      const std::size_t i = static_cast<std::size_t>(r * in.cols + c);
      largest = std::max(largest, std::abs(static_cast<double>(in.x[i])) + 2 * std::abs(static_cast<double>(in.h[i])));
    }
    const double relative = (depth + 4) / 2 + 6 * largest * t.rstd[row];
    bound.rstd[row] = kEpsilon * relative * t.rstd[row];
    for (std::int64_t c = 0; c < in.cols; ++c) {
      const std::size_t i = static_cast<std::size_t>(r * in.cols + c);
      const double gamma = std::abs(static_cast<double>(in.gamma[static_cast<std::size_t>(c)]));
      bound.sum[i] = kEpsilon * 3 * largest;
      bound.y[i] = kEpsilon * gamma * (3 * largest * t.rstd[row] + std::abs(t.sum[i]) * t.rstd[row] * (relative + 2));
    }
  }
  return bound;
}

TEST(RmsNorm, ForwardIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    const Inputs in(random, cols);
    for (const Residual residual : {Residual::kNone, Residual::kPlain, Residual::kDropped}) {
      const ForwardTruth truth = forward_truth(in, residual);
      const ForwardBound bound = forward_bound(in, truth);
      for (const Place place : kPlaces) {
        const auto values = same_on_every_isa(
            [&](const KernelTable& kernels) { return run_forward(kernels, in, residual, place, false); });
        const std::size_t n = truth.y.size();
        expect_within(values, 0, truth.y, bound.y, "y");
        expect_within(values, n, truth.rstd, bound.rstd, "rstd");
        if (residual != Residual::kNone) expect_within(values, n + kRows, truth.sum, bound.sum, "sum");
      }
    }
  }
}

TEST(RmsNorm, TheSumMayBeWrittenOverTheResidual) {
  Seeded random;
  for (const std::int64_t cols : {1, 17, 769}) {
    const Inputs in(random, cols);
    for (const Residual residual : {Residual::kPlain, Residual::kDropped}) {
      for (const Isa isa : isas()) {
        const std::vector<float> apart = run_forward(kernels_for(isa), in, residual, Place::kBeforeGuard, false);
        const std::vector<float> over = run_forward(kernels_for(isa), in, residual, Place::kBeforeGuard, true);
        EXPECT_EQ(first_different_bit(apart, over), -1);
      }
    }
  }
}

TEST(RmsNorm, ARowOfZerosGivesZerosAndTheRootOfEpsilon) {
  Inputs in = [] {
    Seeded random;
    return Inputs(random, 24);
  }();
  std::fill(in.x.begin(), in.x.end(), 0.0f);
  for (const Isa isa : isas()) {
    const std::vector<float> values = run_forward(kernels_for(isa), in, Residual::kNone, Place::kBeforeGuard, false);
    for (std::size_t i = 0; i < in.x.size(); ++i) EXPECT_EQ(values[i], 0.0f);
    EXPECT_FLOAT_EQ(values[in.x.size()], 1.0f / std::sqrt(1e-6f));
  }
}

RowNormBackward backward_arguments(const Inputs& in, const BackwardCase& c) {
  RowNormBackward a{};
  a.row_keys = kNormRowKeys;
  a.rows = kRows;
  a.cols = in.cols;
  a.accumulate = c.accumulate;
  if (c.dropped) a.dropout = tenth();
  return a;
}

// d_x, then d_h and the part where wanted. d_x starts as in.x, to be accumulated into.
std::vector<float> run_backward(const KernelTable& kernels, const Inputs& in, const BackwardCase& c, Place place,
                                Alias alias) {
  const ForwardTruth forward = forward_truth(in, Residual::kNone);
  RowNormBackward a = backward_arguments(in, c);
  Floats d_x(in.x, place), d_h(kRows * in.cols, place), d_gamma(in.cols, place);
  Floats d_sum(in.d_sum, place), d_y(in.d_y, place), sum(in.x, place), gamma(in.gamma, place);
  Floats rstd(std::vector<float>(forward.rstd.begin(), forward.rstd.end()), place);
  Floats& d_x_array = alias == Alias::kDxIsDsum ? d_sum : alias == Alias::kDxIsDy ? d_y : d_x;
  Floats& d_h_array = alias == Alias::kDhIsDy ? d_y : d_h;
  a.d_x = d_x_array.data();
  a.d_h = c.d_h ? d_h_array.data() : nullptr;
  a.d_gamma_part = c.parts ? d_gamma.data() : nullptr;
  a.d_sum = c.d_sum ? d_sum.data() : nullptr;
  a.d_y = d_y.data();
  a.sum = sum.data();
  a.rstd = rstd.data();
  a.gamma = gamma.data();
  kernels.rms_norm_backward(a);
  return joined({d_x_array.values(), c.d_h ? d_h_array.values() : std::vector<float>(),
                 c.parts ? d_gamma.values() : std::vector<float>()});
}

struct BackwardTruth {
  std::vector<double> d_x, d_h, d_gamma;
};

BackwardTruth backward_truth(const Inputs& in, const BackwardCase& c) {
  const ForwardTruth forward = forward_truth(in, Residual::kNone);
  BackwardTruth t{widened(in.x), zeros(kRows * in.cols), zeros(in.cols)};
  const std::vector<double> d_sum = widened(in.d_sum), d_y = widened(in.d_y), sum = widened(in.x);
  const std::vector<double> gamma = widened(in.gamma);
  reference::rms_norm_backward(t.d_x.data(), c.d_h ? t.d_h.data() : nullptr, t.d_gamma.data(),
                               c.d_sum ? d_sum.data() : nullptr, d_y.data(), sum.data(), forward.rstd.data(),
                               gamma.data(), backward_arguments(in, c));
  return t;
}

// In units of epsilon: rstd was rounded once, so n has an error of 2 |n|. The mean over the row has depth + 4 roundings
// of terms of at most E N, E = max |d_y gamma| and N = max |n|; g multiplies out:
//   rstd (4 E + N (depth + 10) N E) + 2 (|d_sum| + |d_x|) + 2 |g|
// A sum over the rows given has one rounding a row and n's error: (rows + 3) sum_r |d_y| N.
struct BackwardBound {
  double row, part;  // the largest over the array: the same for every element
};

BackwardBound backward_bound(const Inputs& in) {
  const ForwardTruth forward = forward_truth(in, Residual::kNone);
  const double depth = static_cast<double>(in.cols) / 16 + 6;
  double E = 0, N = 0, rstd = 0, d = 0, d_sum = 0;
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    const std::size_t r = i / static_cast<std::size_t>(in.cols);
    const double x = static_cast<double>(in.x[i]);
    const double gamma = static_cast<double>(in.gamma[i % static_cast<std::size_t>(in.cols)]);
    d = std::max(d, std::abs(static_cast<double>(in.d_y[i])));
    E = std::max(E, std::abs(static_cast<double>(in.d_y[i]) * gamma));
    N = std::max(N, std::abs(x * forward.rstd[r]));
    rstd = std::max(rstd, forward.rstd[r]);
    d_sum = std::max(d_sum, std::abs(static_cast<double>(in.d_sum[i])) + std::abs(x));
  }
  const double row = rstd * (4 * E + N * (depth + 10) * N * E);
  const double g = rstd * (E + N * N * E);
  return {1.2 * kEpsilon * (row + 2 * d_sum + 2 * g), kEpsilon * (kRows + 3) * kRows * d * N};
}

TEST(RmsNorm, BackwardIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    const Inputs in(random, cols);
    const BackwardBound bound = backward_bound(in);
    const std::size_t n = in.x.size();
    for (const BackwardCase& c : backward_cases()) {
      const BackwardTruth truth = backward_truth(in, c);
      for (const Place place : kPlaces) {
        const auto values = same_on_every_isa(
            [&](const KernelTable& kernels) { return run_backward(kernels, in, c, place, Alias::kNone); });
        const std::vector<double> row_bound(n, bound.row);
        const std::vector<double> part_bound(truth.d_gamma.size(), bound.part);
        expect_within(values, 0, truth.d_x, row_bound, "d_x");
        if (c.d_h) expect_within(values, n, truth.d_h, row_bound, "d_h");
        if (c.parts) expect_within(values, c.d_h ? 2 * n : n, truth.d_gamma, part_bound, "d_gamma");
      }
    }
  }
}

TEST(RmsNorm, BackwardMayWriteOverItsGradients) {
  Seeded random;
  for (const std::int64_t cols : {1, 33, 769}) {
    const Inputs in(random, cols);
    for (const BackwardCase& c : backward_cases()) {
      for (const Isa isa : isas()) {
        const KernelTable& kernels = kernels_for(isa);
        const std::vector<float> apart = run_backward(kernels, in, c, Place::kBeforeGuard, Alias::kNone);
        for (const Alias alias : aliases_of(c)) {
          const std::vector<float> over = run_backward(kernels, in, c, Place::kBeforeGuard, alias);
          EXPECT_EQ(first_different_bit(apart, over), -1) << static_cast<int>(alias);
        }
      }
    }
  }
}

// loss = sum(d_y y) + sum(d_sum sum), with sum = x + dropout(h).
Dual loss_of(const Inputs& in, const std::vector<Dual>& x, const std::vector<Dual>& h, const std::vector<Dual>& gamma) {
  std::vector<Dual> y(x.size()), sum(x.size()), rstd(kRows);
  reference::rms_norm_forward(y.data(), sum.data(), rstd.data(), x.data(), h.data(), gamma.data(),
                              forward_arguments(in, Residual::kDropped));
  Dual loss(0.0);
  for (std::size_t i = 0; i < y.size(); ++i)
    loss += Dual(static_cast<double>(in.d_y[i])) * y[i] + Dual(static_cast<double>(in.d_sum[i])) * sum[i];
  return loss;
}

TEST(RmsNorm, BackwardReferenceIsTheDerivativeOfTheForwardOne) {
  Seeded random;
  const Inputs in(random, 7);
  const std::vector<Dual> x = constants(in.x), h = constants(in.h), gamma = constants(in.gamma);
  const ForwardTruth forward = forward_truth(in, Residual::kDropped);
  const BackwardCase c{true, true, true, true, false};
  std::vector<double> d_x = zeros(21), d_h = zeros(21), d_gamma = zeros(7);
  const std::vector<double> d_sum = widened(in.d_sum), d_y = widened(in.d_y), g = widened(in.gamma);
  reference::rms_norm_backward(d_x.data(), d_h.data(), d_gamma.data(), d_sum.data(), d_y.data(), forward.sum.data(),
                               forward.rstd.data(), g.data(), backward_arguments(in, c));
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<Dual> moved = x;
    moved[i].derivative = 1.0;
    EXPECT_NEAR(loss_of(in, moved, h, gamma).derivative, d_x[i], 1e-12);
    moved = h;
    moved[i].derivative = 1.0;
    EXPECT_NEAR(loss_of(in, x, moved, gamma).derivative, d_h[i], 1e-12);
  }
  for (std::size_t i = 0; i < gamma.size(); ++i) {
    std::vector<Dual> moved = gamma;
    moved[i].derivative = 1.0;
    EXPECT_NEAR(loss_of(in, x, h, moved).derivative, d_gamma[i], 1e-12);
  }
}

}  // namespace
}  // namespace bascule::test::test_rms_norm
