// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/activation.h"
#include "tests/kernels/activation_bounds.h"
#include "tests/kernels/kernel_test.h"
#include "tests/kernels/norm_cases.h"
#include "tests/support/dual.h"

namespace bascule::test::test_gate {
namespace {

constexpr std::int64_t kRows = kNormRows;

GateForward forward_arguments(std::int64_t cols, Activation kind, bool drops) {
  GateForward a{};
  a.row_keys = kNormRowKeys;
  a.rows = kRows;
  a.cols = cols;
  a.kind = kind;
  if (drops) a.dropout = tenth();
  return a;
}

GateBackward backward_arguments(std::int64_t cols, Activation kind, bool drops) {
  const GateForward forward = forward_arguments(cols, kind, drops);
  GateBackward a{};
  a.row_keys = forward.row_keys;
  a.rows = forward.rows;
  a.cols = cols;
  a.kind = kind;
  a.dropout = forward.dropout;
  return a;
}

// The activated half of each row is as test_activation.cpp has it, with both tails.
std::vector<float> gate_inputs(Seeded& random, std::int64_t cols) {
  std::vector<float> x = normal(random, kRows * 2 * cols);
  const std::vector<float> activated = activation_inputs(random, kRows * cols);
  for (std::int64_t i = 0; i < kRows * cols; ++i)
    x[static_cast<std::size_t>(i / cols * 2 * cols + i % cols)] = activated[static_cast<std::size_t>(i)];
  return x;
}

// The function's error, and one rounding each for the product, for dropout, and for what scale / threshold lost.
TEST(Gate, ForwardIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    const std::vector<float> x = gate_inputs(random, cols);
    for (const Activation kind : kAllActivations) {
      for (const bool drops : {false, true}) {
        std::vector<double> truth = zeros(kRows * cols), bound = zeros(kRows * cols);
        GateForward a = forward_arguments(cols, kind, drops);
        reference::gate_forward(truth.data(), widened(x).data(), a);
        for (std::int64_t i = 0; i < kRows * cols; ++i) {
          const std::size_t at = static_cast<std::size_t>(i / cols * 2 * cols + i % cols),
                            out = static_cast<std::size_t>(i);
          const double activated = static_cast<double>(x[at]);
          const double factor = std::abs(static_cast<double>(x[at + static_cast<std::size_t>(cols)]));
          bound[out] = kEpsilon * (roundings(kind, activated) + 3) * std::abs(truth[out]) +
                       2 * error_of_truth(activated) * factor;
        }
        for (const Place place : kPlaces) {
          const auto y = same_on_every_isa([&](const KernelTable& kernels) {
            Floats in(x, place), out(kRows * cols, place);
            a.y = out.data();
            a.x = in.data();
            kernels.gate_forward(a);
            return out.values();
          });
          expect_within(y, 0, truth, bound, "gate " + std::to_string(static_cast<int>(kind)));
        }
      }
    }
  }
}

void check_backward(std::int64_t cols, Activation kind, bool drops, Place place, Seeded& random) {
  const std::vector<float> x = gate_inputs(random, cols), d_y = normal(random, kRows * cols);
  GateBackward a = backward_arguments(cols, kind, drops);
  std::vector<double> truth = zeros(kRows * 2 * cols), bound = truth;
  reference::gate_backward(truth.data(), widened(d_y).data(), widened(x).data(), a);
  const std::size_t width = static_cast<std::size_t>(cols);
  for (std::size_t i = 0; i < d_y.size(); ++i) {
    const std::size_t at = i / width * 2 * width + i % width;
    const double xi = static_cast<double>(x[at]), factor = std::abs(static_cast<double>(x[at + width]));
    const double g = 1.2 * std::abs(static_cast<double>(d_y[i]));
    bound[at] = g * factor * (kEpsilon * slope_terms(kind, xi) * (roundings(kind, xi) + 6) + 2 * error_of_truth(xi));
    bound[at + width] = kEpsilon * (roundings(kind, xi) + 3) * std::abs(truth[at + width]) + 2 * g * error_of_truth(xi);
  }
  const auto run = [&](const KernelTable& kernels, bool in_place) {
    Floats in(x, place), out(kRows * 2 * cols, place), d(d_y, place);
    Floats& d_x = in_place ? in : out;
    a.d_x = d_x.data();
    a.d_y = d.data();
    a.x = in.data();
    kernels.gate_backward(a);
    return d_x.values();
  };
  const auto values = same_on_every_isa([&](const KernelTable& kernels) { return run(kernels, false); });
  expect_within(values, 0, truth, bound, "d_x of gate " + std::to_string(static_cast<int>(kind)));
  for (const Isa isa : isas()) EXPECT_EQ(first_different_bit(values, run(kernels_for(isa), true)), -1) << "in place";
}

TEST(Gate, BackwardIsWithinItsBoundAndTheSameOnEveryIsaAlsoInPlace) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    for (const Activation kind : kAllActivations) {
      for (const Place place : kPlaces) {
        check_backward(cols, kind, false, place, random);
        check_backward(cols, kind, true, place, random);
      }
    }
  }
}

TEST(Gate, BackwardReferenceIsTheDerivativeOfTheForwardOne) {
  Seeded random;
  constexpr std::int64_t kCols = 7;
  const std::vector<float> x = gate_inputs(random, kCols), d_y = normal(random, kRows * kCols);
  for (const Activation kind : kAllActivations) {
    std::vector<double> d_x = zeros(kRows * 2 * kCols);
    reference::gate_backward(d_x.data(), widened(d_y).data(), widened(x).data(), backward_arguments(kCols, kind, true));
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::vector<Dual> moved = constants(x), y(d_y.size());
      moved[i].derivative = 1.0;
      reference::gate_forward(y.data(), moved.data(), forward_arguments(kCols, kind, true));
      double derivative = 0.0;
      for (std::size_t o = 0; o < y.size(); ++o) derivative += static_cast<double>(d_y[o]) * y[o].derivative;
      EXPECT_NEAR(derivative, d_x[i], 1e-12 * (1.0 + std::abs(d_x[i])));
    }
  }
}

// The columns of both halves exchanged, row by row.
std::vector<float> exchanged(const std::vector<float>& x, std::int64_t cols) {
  std::vector<float> result(x.size());
  const std::size_t width = static_cast<std::size_t>(cols);
  for (std::size_t i = 0; i < x.size(); ++i) result[i] = x[i % (2 * width) < width ? i + width : i - width];
  return result;
}

TEST(Gate, OfTheSecondHalfHasTheBitsOfTheFirstOnExchangedColumns) {
  Seeded random;
  for (const std::int64_t cols : {1, 17, 70}) {
    const std::vector<float> x = gate_inputs(random, cols), d_y = normal(random, kRows * cols);
    for (const Isa isa : isas()) {
      const KernelTable& kernels = kernels_for(isa);
      const auto run = [&](const std::vector<float>& from, GatedHalf half, std::vector<float>* d_x) {
        Floats in(from, Place::kPageStart), out(kRows * cols, Place::kPageStart),
            d_in(kRows * 2 * cols, Place::kPageStart), d_out(d_y, Place::kPageStart);
        GateForward forward = forward_arguments(cols, Activation::kGelu, true);
        forward.y = out.data();
        forward.x = in.data();
        forward.half = half;
        kernels.gate_forward(forward);
        GateBackward backward = backward_arguments(cols, Activation::kGelu, true);
        backward.d_x = d_in.data();
        backward.d_y = d_out.data();
        backward.x = in.data();
        backward.half = half;
        kernels.gate_backward(backward);
        *d_x = d_in.values();
        return out.values();
      };
      std::vector<float> d_first, d_second;
      const std::vector<float> first = run(x, GatedHalf::kFirst, &d_first);
      EXPECT_EQ(first_different_bit(first, run(exchanged(x, cols), GatedHalf::kSecond, &d_second)), -1);
      EXPECT_EQ(first_different_bit(d_first, exchanged(d_second, cols)), -1);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_gate
