// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/optimizers.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_average {
namespace {

// In epsilons: one rounding of the difference, which the share makes smaller, and one of the sum.
TEST(Average, AStepIsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Place place : kPlaces) {
      const std::vector<float> e0 = normal(random, count), p0 = normal(random, count);
      Average a{nullptr, nullptr, count, 0.0625f};
      std::vector<double> e = widened(e0), bound = e;
      const std::vector<double> before = e, p = widened(p0);
      reference::average(e.data(), p.data(), a);
      for (std::size_t i = 0; i < e.size(); ++i)
        bound[i] = kEpsilon * (0.0625 * std::abs(p[i] - before[i]) + std::abs(e[i]));
      const auto values = same_on_every_isa([&](const KernelTable& kernels) {
        Floats average(e0, place), value(p0, place);
        a.average = average.data();
        a.value = value.data();
        kernels.average(a);
        return average.values();
      });
      expect_within(values, 0, e, bound, "average");
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_average
