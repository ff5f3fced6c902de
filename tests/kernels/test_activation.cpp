// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/activation.h"
#include "tests/kernels/activation_bounds.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/dual.h"

namespace bascule::test::test_activation {
namespace {

TEST(Activation, ForwardIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    const std::vector<float> x = activation_inputs(random, count);
    for (const Activation kind : kAllActivations) {
      std::vector<double> truth = widened(x), bound = zeros(count);
      reference::activation_forward(truth.data(), widened(x).data(), {nullptr, nullptr, count, kind});
      for (std::size_t i = 0; i < truth.size(); ++i) {
        bound[i] = kEpsilon * roundings(kind, static_cast<double>(x[i])) * std::abs(truth[i]) +
                   error_of_truth(static_cast<double>(x[i]));
      }
      for (const Place place : kPlaces) {
        const auto y = same_on_every_isa([&](const KernelTable& kernels) {
          Floats in(x, place), out(count, place);
          kernels.activation_forward({out.data(), in.data(), count, kind});
          kernels.activation_forward({in.data(), in.data(), count, kind});
          EXPECT_EQ(first_different_bit(in.values(), out.values()), -1) << "in place";
          return out.values();
        });
        expect_within(y, 0, truth, bound, "activation " + std::to_string(static_cast<int>(kind)));
      }
    }
  }
}

TEST(Activation, InfinitiesGiveTheLimitsAndNanStaysNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
  for (const Isa isa : isas()) {
    for (const Activation kind : kAllActivations) {
      float y[3];
      kernels_for(isa).activation_forward({y, x.data(), 3, kind});
      const bool bounded = kind == Activation::kTanh || kind == Activation::kSigmoid;
      EXPECT_EQ(y[0], bounded ? 1.0f : infinity) << static_cast<int>(kind);
      if (kind == Activation::kTanh) {
        EXPECT_EQ(y[1], -1.0f);
      } else if (kind == Activation::kSigmoid || kind == Activation::kRelu) {
        EXPECT_EQ(y[1], 0.0f);
      }
      EXPECT_TRUE(std::isnan(y[2])) << static_cast<int>(kind);
    }
  }
}

struct BackwardCase {
  Activation kind;
  bool part, accumulate;
};

constexpr std::int64_t kRows = 5;

std::vector<float> run_backward(const KernelTable& kernels, const BackwardCase& c, std::int64_t cols,
                                const std::vector<float>& x, const std::vector<float>& d_y, Place place,
                                bool in_place) {
  Floats d_x(x, place), part(cols, place), d(d_y, place), in(x, place);
  Floats& out = in_place ? d : d_x;
  kernels.activation_backward(
      {out.data(), c.part ? part.data() : nullptr, d.data(), in.data(), kRows, cols, c.kind, c.accumulate});
  return joined({out.values(), c.part ? part.values() : std::vector<float>()});
}

void check_backward(const BackwardCase& c, std::int64_t cols, Place place, Seeded& random) {
  const std::vector<float> x = activation_inputs(random, kRows * cols), d_y = normal(random, kRows * cols);
  std::vector<double> d_x = widened(x), part = zeros(cols), bound = zeros(kRows * cols), part_bound = zeros(cols);
  reference::activation_backward(d_x.data(), c.part ? part.data() : nullptr, widened(d_y).data(), widened(x).data(),
                                 {nullptr, nullptr, nullptr, nullptr, kRows, cols, c.kind, c.accumulate});
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const double xi = static_cast<double>(x[i]);
    const double size = std::abs(static_cast<double>(d_y[i])) * slope_terms(c.kind, xi);
    const double error =
        kEpsilon * (size * (roundings(c.kind, xi) + 4)) + error_of_truth(xi) * std::abs(static_cast<double>(d_y[i]));
    bound[i] = error + (c.accumulate ? kEpsilon * (std::abs(xi) + size) : 0.0);
    part_bound[i % static_cast<std::size_t>(cols)] += error + kEpsilon * kRows * size;
  }
  const auto values = same_on_every_isa(
      [&](const KernelTable& kernels) { return run_backward(kernels, c, cols, x, d_y, place, false); });
  const std::string name = "activation " + std::to_string(static_cast<int>(c.kind));
  expect_within(values, 0, d_x, bound, "d_x of " + name);
  if (c.part) expect_within(values, d_x.size(), part, part_bound, "part of " + name);
  if (c.accumulate) return;
  for (const Isa isa : isas()) {
    EXPECT_EQ(first_different_bit(values, run_backward(kernels_for(isa), c, cols, x, d_y, place, true)), -1);
  }
}

TEST(Activation, BackwardIsWithinItsBoundAndTheSameOnEveryIsaAlsoInPlace) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    for (const Activation kind : kAllActivations) {
      for (const Place place : kPlaces) {
        check_backward({kind, true, false}, cols, place, random);
        check_backward({kind, false, true}, cols, place, random);
      }
    }
  }
}

TEST(Activation, SlopeReferenceIsTheDerivativeOfTheForwardOne) {
  for (const Activation kind : kAllActivations) {
    for (const double x : {-6.0, -1.3, -0.2, 0.3, 1.0, 4.5}) {
      EXPECT_NEAR(reference::activation(kind, Dual(x, 1.0)).derivative, reference::activation_slope(kind, x), 1e-12);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_activation
