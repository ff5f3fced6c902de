// SPDX-License-Identifier: Apache-2.0
// Layer and root mean square normalisation of rows.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/reference/norms.h"
#include "tests/kernels/kernel_test.h"
#include "tests/kernels/norm_cases.h"
#include "tests/support/dual.h"

namespace bascule::test::test_row_norm {
namespace {

constexpr std::int64_t kRows = kNormRows;

// A kind of norm, and what its backward pass keeps: rms has neither mean nor beta.
struct Kind {
  const char* name;
  bool is_layer;
  float epsilon;

  template <typename T>
  T* of_layer(T* values) const {
    return is_layer ? values : nullptr;
  }
  template <typename T>
  std::vector<T> of_layer(std::vector<T> values) const {
    return is_layer ? values : std::vector<T>();
  }
};
constexpr Kind kKinds[] = {{"layer", true, 1e-5f}, {"rms", false, 1e-6f}};

struct Inputs {
  const Kind& kind;
  std::int64_t cols;
  std::vector<float> x, h, gamma, beta, d_sum, d_y;

  Inputs(const Kind& norm, Seeded& random, std::int64_t columns)
      : kind(norm),
        cols(columns),
        x(normal(random, kRows * cols, 2.0, 0.5)),
        h(normal(random, kRows * cols)),
        gamma(normal(random, cols, 0.3, 1.0)),
        beta(normal(random, cols)),
        d_sum(normal(random, kRows * cols)),
        d_y(normal(random, kRows * cols)) {}
};

// Calls check(inputs) with inputs of each kind and width.
template <typename Check>
void for_inputs(const std::vector<std::int64_t>& widths, Check check) {
  Seeded random;
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    for (const std::int64_t cols : widths) check(Inputs(kind, random, cols));
  }
}

RowNormForward forward_arguments(const Inputs& in, Residual residual) {
  RowNormForward a{};
  a.row_keys = kNormRowKeys;
  a.rows = kRows;
  a.cols = in.cols;
  a.epsilon = in.kind.epsilon;
  if (residual == Residual::kDropped) a.dropout = tenth();
  return a;
}

// y, rstd, the mean of layer norm, and the sum where there is one. `sum_is_h`: the sum is written over h.
std::vector<float> run_forward(const KernelTable& kernels, const Inputs& in, Residual residual, Place place,
                               bool sum_is_h) {
  RowNormForward a = forward_arguments(in, residual);
  Floats y(kRows * in.cols, place), sum(kRows * in.cols, place), mean(kRows, place), rstd(kRows, place);
  Floats x(in.x, place), h(in.h, place), gamma(in.gamma, place), beta(in.beta, place);
  const bool has_sum = residual != Residual::kNone;
  a.y = y.data();
  a.sum = has_sum ? (sum_is_h ? h.data() : sum.data()) : nullptr;
  a.mean = in.kind.of_layer(mean.data());
  a.rstd = rstd.data();
  a.x = x.data();
  a.h = has_sum ? h.data() : nullptr;
  a.gamma = gamma.data();
  a.beta = in.kind.of_layer(beta.data());
  (in.kind.is_layer ? kernels.layer_norm_forward : kernels.rms_norm_forward)(a);
  const std::vector<float> sums = has_sum ? (sum_is_h ? h.values() : sum.values()) : std::vector<float>();
  return joined({y.values(), rstd.values(), in.kind.of_layer(mean.values()), sums});
}

struct Forward {
  std::vector<double> y, sum, mean, rstd;

  explicit Forward(std::int64_t n) : y(zeros(n)), sum(zeros(n)), mean(zeros(kRows)), rstd(zeros(kRows)) {}
};

Forward forward_truth(const Inputs& in, Residual residual) {
  Forward t(kRows * in.cols);
  const std::vector<double> x = widened(in.x), h = widened(in.h), gamma = widened(in.gamma), beta = widened(in.beta);
  reference::row_norm_forward(t.y.data(), t.sum.data(), in.kind.of_layer(t.mean.data()), t.rstd.data(), x.data(),
                              residual == Residual::kNone ? nullptr : h.data(), gamma.data(), beta.data(),
                              forward_arguments(in, residual));
  return t;
}

// To first order, in units of epsilon, with A the largest |x| + 2 |h| of the row and depth the additions that a term
// goes through:
//   sum       3 A: a product, a sum, and what scale / threshold lost
//   mean      (depth + 4) A
//   centred   mean's error, sum's error, one rounding: c = (depth + 8) A; rms: c = 3 A, the sum's
//   rstd      relative: half of variance's, which is depth + 4 roundings and 2 c / sigma: v = (depth + 4) / 2 +
//             c / sigma; rms: 6 A rstd in place of c / sigma
//   y         |gamma| (c rstd + |n| (v + 2)), and of layer norm 2 (|n gamma| + |beta|)
Forward forward_bound(const Inputs& in, const Forward& t) {
  Forward bound(kRows * in.cols);
  const double depth = static_cast<double>(in.cols) / 16 + 6;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::size_t row = static_cast<std::size_t>(r);
    double largest = 0.0;
    for (std::int64_t c = 0; c < in.cols; ++c) {
      const std::size_t i = static_cast<std::size_t>(r * in.cols + c);
      largest = std::max(largest, std::abs(static_cast<double>(in.x[i])) + 2 * std::abs(static_cast<double>(in.h[i])));
    }
    const double centred = (in.kind.is_layer ? depth + 8 : 3) * largest;
    const double relative = (depth + 4) / 2 + (in.kind.is_layer ? centred : 6 * largest) * t.rstd[row];
    bound.mean[row] = kEpsilon * (depth + 4) * largest;
    bound.rstd[row] = kEpsilon * relative * t.rstd[row];
    for (std::int64_t c = 0; c < in.cols; ++c) {
      const std::size_t i = static_cast<std::size_t>(r * in.cols + c);
      const double gamma = std::abs(static_cast<double>(in.gamma[static_cast<std::size_t>(c)]));
      const double beta = std::abs(static_cast<double>(in.beta[static_cast<std::size_t>(c)]));
      const double normal_value = std::abs(t.sum[i] - t.mean[row]) * t.rstd[row];
      bound.sum[i] = kEpsilon * 3 * largest;
      bound.y[i] = kEpsilon * (gamma * (centred * t.rstd[row] + normal_value * (relative + 2)) +
                               (in.kind.is_layer ? 2 * (normal_value * gamma + beta) : 0.0));
    }
  }
  return bound;
}

TEST(RowNorm, ForwardIsWithinItsBoundAndTheSameOnEveryIsa) {
  for_inputs(lengths(1), [](const Inputs& in) {
    for (const Residual residual : {Residual::kNone, Residual::kPlain, Residual::kDropped}) {
      const Forward truth = forward_truth(in, residual);
      const Forward bound = forward_bound(in, truth);
      for (const Place place : kPlaces) {
        const auto values = same_on_every_isa(
            [&](const KernelTable& kernels) { return run_forward(kernels, in, residual, place, false); });
        const std::size_t n = truth.y.size(), sums = n + (in.kind.is_layer ? 2 : 1) * kRows;
        expect_within(values, 0, truth.y, bound.y, "y");
        expect_within(values, n, truth.rstd, bound.rstd, "rstd");
        if (in.kind.is_layer) expect_within(values, n + kRows, truth.mean, bound.mean, "mean");
        if (residual != Residual::kNone) expect_within(values, sums, truth.sum, bound.sum, "sum");
      }
    }
  });
}

TEST(RowNorm, TheSumMayBeWrittenOverTheResidual) {
  for_inputs({1, 17, 769}, [](const Inputs& in) {
    for (const Residual residual : {Residual::kPlain, Residual::kDropped}) {
      for (const Isa isa : isas()) {
        const std::vector<float> apart = run_forward(kernels_for(isa), in, residual, Place::kBeforeGuard, false);
        const std::vector<float> over = run_forward(kernels_for(isa), in, residual, Place::kBeforeGuard, true);
        EXPECT_EQ(first_different_bit(apart, over), -1);
      }
    }
  });
}

// Of rms that number is 0.
TEST(RowNorm, ARowOfEqualNumbersGivesBetaAndTheRootOfEpsilon) {
  for_inputs({24}, [](Inputs in) {
    const float number = in.kind.is_layer ? 3.0f : 0.0f;
    std::fill(in.x.begin(), in.x.end(), number);
    for (const Isa isa : isas()) {
      const std::vector<float> values = run_forward(kernels_for(isa), in, Residual::kNone, Place::kBeforeGuard, false);
      for (std::size_t i = 0; i < in.x.size(); ++i) EXPECT_EQ(values[i], in.kind.is_layer ? in.beta[i % 24] : 0.0f);
      EXPECT_FLOAT_EQ(values[in.x.size()], 1.0f / std::sqrt(in.kind.epsilon));
      if (in.kind.is_layer) {
        EXPECT_EQ(values[in.x.size() + kRows], number);
      }
    }
  });
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

// d_x, then d_h and the parts where wanted. d_x starts as in.x, to be accumulated into.
std::vector<float> run_backward(const KernelTable& kernels, const Inputs& in, const BackwardCase& c, Place place,
                                Alias alias) {
  const Forward forward = forward_truth(in, Residual::kNone);
  RowNormBackward a = backward_arguments(in, c);
  Floats d_x(in.x, place), d_h(kRows * in.cols, place), d_gamma(in.cols, place), d_beta(in.cols, place);
  Floats d_sum(in.d_sum, place), d_y(in.d_y, place), sum(in.x, place), gamma(in.gamma, place);
  Floats mean(std::vector<float>(forward.mean.begin(), forward.mean.end()), place);
  Floats rstd(std::vector<float>(forward.rstd.begin(), forward.rstd.end()), place);
  Floats& d_x_array = alias == Alias::kDxIsDsum ? d_sum : alias == Alias::kDxIsDy ? d_y : d_x;
  Floats& d_h_array = alias == Alias::kDhIsDy ? d_y : d_h;
  a.d_x = d_x_array.data();
  a.d_h = c.d_h ? d_h_array.data() : nullptr;
  a.d_gamma_part = c.parts ? d_gamma.data() : nullptr;
  a.d_beta_part = c.parts ? in.kind.of_layer(d_beta.data()) : nullptr;
  a.d_sum = c.d_sum ? d_sum.data() : nullptr;
  a.d_y = d_y.data();
  a.sum = sum.data();
  a.mean = in.kind.of_layer(mean.data());
  a.rstd = rstd.data();
  a.gamma = gamma.data();
  (in.kind.is_layer ? kernels.layer_norm_backward : kernels.rms_norm_backward)(a);
  const std::vector<float> none;
  return joined({d_x_array.values(), c.d_h ? d_h_array.values() : none, c.parts ? d_gamma.values() : none,
                 c.parts ? in.kind.of_layer(d_beta.values()) : none});
}

struct Backward {
  std::vector<double> d_x, d_h, d_gamma, d_beta;
};

// d_x: to be accumulated into. sum: as the forward pass had it.
Backward backward_truth(const Inputs& in, const BackwardCase& c, const Forward& forward, const std::vector<double>& sum,
                        std::vector<double> d_x) {
  Backward t{std::move(d_x), zeros(kRows * in.cols), zeros(in.cols), zeros(in.cols)};
  const std::vector<double> d_sum = widened(in.d_sum), d_y = widened(in.d_y), gamma = widened(in.gamma);
  reference::row_norm_backward(t.d_x.data(), c.d_h ? t.d_h.data() : nullptr, t.d_gamma.data(), t.d_beta.data(),
                               c.d_sum ? d_sum.data() : nullptr, d_y.data(), sum.data(),
                               in.kind.of_layer(forward.mean.data()), forward.rstd.data(), gamma.data(),
                               backward_arguments(in, c));
  return t;
}

// In units of epsilon: mean and rstd were rounded once, so n has an error of m = rstd (A + |mean|) + 3 |n|. Both means
// over the row have depth + 2 roundings of terms of at most E = max |d_y gamma| and E N, N = max |n|, and m within; g
// multiplies out:
//   rstd (2 E + (depth + 2) E + N (depth + 4 + m) E + N m E + 4 (E + E + N N E)) + 2 (|d_sum| + |d_x|) + 2 |g|
// A sum over the rows given has one rounding a row and n's error: (rows + 1 + m) sum_r |d_y| max(N, 1).
// Of rms n's error is 2 |n|, and there is one mean, of depth + 4 roundings:
//   rstd (4 E + N (depth + 10) N E) + 2 (|d_sum| + |d_x|) + 2 |g|        and (rows + 3) sum_r |d_y| N.
struct BackwardBound {
  double row, part;  // the largest over the array: the same for every element
};

BackwardBound backward_bound(const Inputs& in) {
  const Forward forward = forward_truth(in, Residual::kNone);
  const double depth = static_cast<double>(in.cols) / 16 + 6;
  double A = 0, E = 0, N = 0, rstd = 0, d = 0, d_sum = 0;
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    const std::size_t r = i / static_cast<std::size_t>(in.cols);
    const double x = static_cast<double>(in.x[i]);
    const double gamma = static_cast<double>(in.gamma[i % static_cast<std::size_t>(in.cols)]);
    A = std::max(A, std::abs(x) + std::abs(forward.mean[r]));
    d = std::max(d, std::abs(static_cast<double>(in.d_y[i])));
    E = std::max(E, std::abs(static_cast<double>(in.d_y[i]) * gamma));
    N = std::max(N, std::abs((x - forward.mean[r]) * forward.rstd[r]));
    rstd = std::max(rstd, forward.rstd[r]);
    d_sum = std::max(d_sum, std::abs(static_cast<double>(in.d_sum[i])) + std::abs(x));
  }
  if (!in.kind.is_layer) {
    const double row = rstd * (4 * E + N * (depth + 10) * N * E), g = rstd * (E + N * N * E);
    return {1.2 * kEpsilon * (row + 2 * d_sum + 2 * g), kEpsilon * (kRows + 3) * kRows * d * N};
  }
  const double m = rstd * A + 3 * N;
  const double row = rstd * (2 * E + (depth + 2) * E + N * (depth + 4 + m) * E + N * m * E + 4 * (2 * E + N * N * E));
  const double g = rstd * (2 * E + N * N * E);
  return {1.2 * kEpsilon * (row + 2 * d_sum + 2 * g), kEpsilon * (kRows + 1 + m) * kRows * d * std::max(N, 1.0)};
}

TEST(RowNorm, BackwardIsWithinItsBoundAndTheSameOnEveryIsa) {
  for_inputs(lengths(1), [](const Inputs& in) {
    const BackwardBound bound = backward_bound(in);
    const std::vector<double> x = widened(in.x), row_bound(x.size(), bound.row),
                              part_bound(in.gamma.size(), bound.part);
    for (const BackwardCase& c : backward_cases()) {
      const Backward truth = backward_truth(in, c, forward_truth(in, Residual::kNone), x, x);
      for (const Place place : kPlaces) {
        const auto values = same_on_every_isa(
            [&](const KernelTable& kernels) { return run_backward(kernels, in, c, place, Alias::kNone); });
        expect_within(values, 0, truth.d_x, row_bound, "d_x");
        if (c.d_h) expect_within(values, x.size(), truth.d_h, row_bound, "d_h");
        const std::size_t parts = (c.d_h ? 2 : 1) * x.size();
        if (c.parts) expect_within(values, parts, truth.d_gamma, part_bound, "d_gamma");
        if (c.parts && in.kind.is_layer)
          expect_within(values, parts + in.gamma.size(), truth.d_beta, part_bound, "d_beta");
      }
    }
  });
}

TEST(RowNorm, BackwardMayWriteOverItsGradients) {
  for_inputs({1, 33, 769}, [](const Inputs& in) {
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
  });
}

// x, h, gamma and beta.
using Arguments = std::array<std::vector<Dual>, 4>;

// loss = sum(d_y y) + sum(d_sum sum), with sum = x + dropout(h).
Dual loss_of(const Inputs& in, const Arguments& of) {
  const auto& [x, h, gamma, beta] = of;
  std::vector<Dual> y(x.size()), sum(x.size()), mean(kRows), rstd(kRows);
  reference::row_norm_forward(y.data(), sum.data(), in.kind.of_layer(mean.data()), rstd.data(), x.data(), h.data(),
                              gamma.data(), beta.data(), forward_arguments(in, Residual::kDropped));
  Dual loss(0.0);
  for (std::size_t i = 0; i < y.size(); ++i)
    loss += Dual(static_cast<double>(in.d_y[i])) * y[i] + Dual(static_cast<double>(in.d_sum[i])) * sum[i];
  return loss;
}

TEST(RowNorm, BackwardReferenceIsTheDerivativeOfTheForwardOne) {
  for_inputs({7}, [](const Inputs& in) {
    const Arguments arguments = {constants(in.x), constants(in.h), constants(in.gamma), constants(in.beta)};
    const Forward forward = forward_truth(in, Residual::kDropped);
    const Backward truth = backward_truth(in, {true, true, true, true, false}, forward, forward.sum, zeros(21));
    const std::vector<double>* const gradients[] = {&truth.d_x, &truth.d_h, &truth.d_gamma, &truth.d_beta};
    for (std::size_t argument = 0; argument < 4; ++argument) {
      for (std::size_t i = 0; i < arguments[argument].size(); ++i) {
        Arguments moved = arguments;
        moved[argument][i].derivative = 1.0;
        EXPECT_NEAR(loss_of(in, moved).derivative, (*gradients[argument])[i], 1e-12) << argument;
      }
    }
  });
}

}  // namespace
}  // namespace bascule::test::test_row_norm
