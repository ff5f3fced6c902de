// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/reference/elementwise.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/dual.h"

namespace bascule::test::test_elementwise {
namespace {

TEST(Elementwise, FillAndAddAreExactAlsoInPlace) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    const auto x = normal(random, count), y = normal(random, count);
    std::vector<float> sum(x.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = x[i] + y[i];
    const std::vector<float> filled(x.size(), -0.3f);
    for (const Place place : kPlaces) {
      const auto out = same_on_every_isa([&](const KernelTable& kernels) {
        Floats f(count, place), s(count, place), a(x, place), b(y, place), over_a(x, place), over_b(y, place);
        kernels.fill({f.data(), count, -0.3f});
        kernels.add({s.data(), a.data(), b.data(), count});
        kernels.add({over_a.data(), over_a.data(), b.data(), count});
        kernels.add({over_b.data(), a.data(), over_b.data(), count});
        return joined({f.values(), s.values(), over_a.values(), over_b.values()});
      });
      EXPECT_EQ(first_different_bit(out, joined({filled, sum, sum, sum})), -1) << count;
    }
  }
}

TEST(Elementwise, ScaleIsOneRoundingAndAddingAnotherAlsoInPlace) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    const auto x = normal(random, count), before = normal(random, count);
    std::vector<float> scaled(x.size()), added(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      scaled[i] = 0.3f * x[i];
      added[i] = before[i] + scaled[i];
    }
    for (const Place place : kPlaces) {
      const auto out = same_on_every_isa([&](const KernelTable& kernels) {
        Floats s(count, place), in(x, place), over(x, place), sum(before, place);
        kernels.scale({s.data(), in.data(), count, 0.3f, false});
        kernels.scale({over.data(), over.data(), count, 0.3f, false});
        kernels.scale({sum.data(), in.data(), count, 0.3f, true});
        return joined({s.values(), over.values(), sum.values()});
      });
      EXPECT_EQ(first_different_bit(out, joined({scaled, scaled, added})), -1) << count;
    }
  }
}

TEST(Elementwise, CopyRowsHonoursBothStridesAndLeavesTheGapsAlone) {
  Seeded random;
  for (const std::int64_t cols : lengths()) {
    const std::int64_t rows = 3, out_stride = cols + 5, x_stride = cols + 2;
    const auto x = normal(random, rows * x_stride), before = normal(random, rows * out_stride);
    for (const bool accumulate : {false, true}) {
      std::vector<float> truth = before;
      reference::copy_rows(truth.data(), x.data(), {nullptr, nullptr, rows, cols, out_stride, x_stride, accumulate});
      for (const Place place : kPlaces) {
        const auto out = same_on_every_isa([&](const KernelTable& kernels) {
          Floats y(before, place), in(x, place);
          kernels.copy_rows({y.data(), in.data(), rows, cols, out_stride, x_stride, accumulate});
          return y.values();
        });
        EXPECT_EQ(first_different_bit(out, truth), -1) << cols;
      }
    }
  }
}

// The reference in float adds in the same order, so it gives the very bits.
TEST(Elementwise, SumsDownColumnsAreInAFixedOrder) {
  Seeded random;
  for (const std::int64_t cols : lengths()) {
    for (const std::int64_t rows : {0, 1, 3, 4, 5, 11}) {
      const std::int64_t stride = cols + 3;
      const auto x = normal(random, rows * stride), before = normal(random, cols);
      std::vector<float> sums(before.size()), stored = before, added = before;
      reference::column_sums(sums.data(), x.data(), {nullptr, nullptr, rows, cols, stride});
      reference::add_parts(stored.data(), x.data(), {nullptr, nullptr, rows, cols, stride, false});
      reference::add_parts(added.data(), x.data(), {nullptr, nullptr, rows, cols, stride, true});
      const Place place = kPlaces[rows % 3];
      const auto out = same_on_every_isa([&](const KernelTable& kernels) {
        Floats a(cols, place), b(before, place), c(before, place), in(x, place);
        kernels.column_sums({a.data(), in.data(), rows, cols, stride});
        kernels.add_parts({b.data(), in.data(), rows, cols, stride, false});
        kernels.add_parts({c.data(), in.data(), rows, cols, stride, true});
        return joined({a.values(), b.values(), c.values()});
      });
      EXPECT_EQ(first_different_bit(out, joined({sums, stored, added})), -1) << rows << " x " << cols;
    }
  }
}

// The reference in float adds by the same tree, so it gives the very bits, also where the sum replaces a term.
TEST(Elementwise, SumsOfTermsAreAFixedTreeAlsoInPlace) {
  Seeded random;
  std::vector<std::int64_t> counts = lengths();
  counts.insert(counts.end(), {63, 64, 65, 129});
  for (const std::int64_t count : counts) {
    for (const std::int64_t term_count : {1, 2, 3, 4, 5, 7, 9}) {
      std::vector<std::vector<float>> values;
      std::vector<const float*> pointers;
      for (std::int64_t t = 0; t < term_count; ++t) values.push_back(normal(random, count));
      for (const auto& one : values) pointers.push_back(one.data());
      std::vector<float> truth(static_cast<std::size_t>(count));
      reference::sum_terms(truth.data(), pointers.data(), {nullptr, nullptr, term_count, count});
      const Place place = kPlaces[count % 3];
      for (std::int64_t replaced = -1; replaced < term_count; ++replaced) {
        const auto out = same_on_every_isa([&](const KernelTable& kernels) {
          std::vector<std::unique_ptr<Floats>> terms;
          std::vector<const float*> places;
          for (const auto& one : values) {
            terms.push_back(std::make_unique<Floats>(one, place));
            places.push_back(terms.back()->data());
          }
          Floats apart(count, place);
          Floats& sum = replaced < 0 ? apart : *terms[static_cast<std::size_t>(replaced)];
          kernels.sum_terms({sum.data(), places.data(), term_count, count});
          return sum.values();
        });
        EXPECT_EQ(first_different_bit(out, truth), -1) << count << " of " << term_count << " over " << replaced;
      }
    }
  }
}

// This lets machines with a power of two of ranks each add up their own first.
TEST(Elementwise, ASumOfSumsOfPowersOfTwoOfTermsIsTheSumOfAll) {
  Seeded random;
  const std::int64_t count = 200;
  const auto sum_of = [&](const std::vector<std::vector<float>>& terms) {
    std::vector<const float*> places;
    for (const auto& one : terms) places.push_back(one.data());
    std::vector<float> sum(static_cast<std::size_t>(count));
    kernels_for(best_isa()).sum_terms({sum.data(), places.data(), static_cast<std::int64_t>(terms.size()), count});
    return sum;
  };
  for (const std::int64_t each : {1, 2, 4, 8}) {
    for (const std::int64_t groups : {2, 3, 5, 8}) {
      std::vector<std::vector<float>> all, sums;
      for (std::int64_t g = 0; g < groups; ++g) {
        std::vector<std::vector<float>> group;
        for (std::int64_t t = 0; t < each; ++t) group.push_back(normal(random, count));
        all.insert(all.end(), group.begin(), group.end());
        sums.push_back(sum_of(group));
      }
      EXPECT_EQ(first_different_bit(sum_of(sums), sum_of(all)), -1) << groups << " of " << each;
    }
  }
}

// One product, one fused product and sum: 2 epsilon of both terms.
TEST(Elementwise, BlendForwardIsWithinTwoRoundings) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    const auto a = normal(random, count), c = normal(random, count);
    for (const float weight : {1.0f, 0.3f}) {
      std::vector<double> truth = zeros(count), bound = zeros(count);
      const double weight_a = static_cast<double>(weight), weight_c = static_cast<double>(1.0f - 0.5f * weight);
      reference::blend_forward(truth.data(), widened(a).data(), widened(c).data(), weight_a, weight_c, count);
      for (std::size_t i = 0; i < truth.size(); ++i) {
        bound[i] = 2 * kEpsilon * (std::abs(static_cast<double>(a[i])) + std::abs(static_cast<double>(c[i])));
      }
      for (const Place place : kPlaces) {
        const auto out = same_on_every_isa([&](const KernelTable& kernels) {
          Floats y(count, place), in_a(a, place), in_c(c, place);
          kernels.blend_forward({y.data(), in_a.data(), in_c.data(), count, weight, 1.0f - 0.5f * weight});
          return y.values();
        });
        expect_within(out, 0, truth, bound, "blend");
      }
    }
  }
}

struct BlendCase {
  bool d_a, d_c, dots, accumulate_a, accumulate_c;
};

std::vector<float> run_blend_backward(const KernelTable& kernels, const BlendCase& c, const BlendBackward& sizes,
                                      const std::vector<float>& before, const std::vector<float>& d,
                                      const std::vector<float>& a, const std::vector<float>& b, Place place,
                                      int in_place) {
  Floats d_a(before, place), d_c(before, place), d_out(d, place), in_a(a, place), in_c(b, place), dots(2);
  BlendBackward args = sizes;
  args.d_a = !c.d_a ? nullptr : in_place == 1 ? d_out.data() : d_a.data();
  args.d_c = !c.d_c ? nullptr : in_place == 2 ? d_out.data() : d_c.data();
  args.dot_a = c.dots ? dots.data() : nullptr;
  args.dot_c = c.dots ? dots.data() + 1 : nullptr;
  args.d_out = d_out.data();
  args.a = in_a.data();
  args.c = in_c.data();
  kernels.blend_backward(args);
  return joined({in_place == 1 ? d_out.values() : d_a.values(), in_place == 2 ? d_out.values() : d_c.values(),
                 c.dots ? dots.values() : std::vector<float>(2)});
}

// Gradients: a product and a sum, 2 epsilon of both. Dots: summed in double, rounded to float once.
void check_blend_backward(const BlendCase& c, std::int64_t count, Place place, Seeded& random) {
  const auto before = normal(random, count), d = normal(random, count), a = normal(random, count);
  const auto b = normal(random, count);
  BlendBackward sizes{};
  sizes.count = count;
  sizes.weight_a = 0.7f;
  sizes.weight_c = -0.4f;
  sizes.accumulate_a = c.accumulate_a;
  sizes.accumulate_c = c.accumulate_c;
  std::vector<double> d_a = widened(before), d_c = widened(before), dots = zeros(2), bound = zeros(count);
  reference::blend_backward(c.d_a ? d_a.data() : nullptr, c.d_c ? d_c.data() : nullptr, c.dots ? dots.data() : nullptr,
                            c.dots ? dots.data() + 1 : nullptr, widened(d).data(), widened(a).data(), widened(b).data(),
                            sizes);
  double size = 0.0;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    bound[i] = 2 * kEpsilon * (std::abs(static_cast<double>(d[i])) + std::abs(static_cast<double>(before[i])));
    size += std::abs(static_cast<double>(d[i])) *
            (std::abs(static_cast<double>(a[i])) + std::abs(static_cast<double>(b[i])));
  }
  const auto values = same_on_every_isa(
      [&](const KernelTable& kernels) { return run_blend_backward(kernels, c, sizes, before, d, a, b, place, 0); });
  expect_within(values, 0, d_a, bound, "d_a");
  expect_within(values, d_a.size(), d_c, bound, "d_c");
  const double rounded = kEpsilon * std::max(std::abs(dots[0]), std::abs(dots[1])) + 0x1p-50 * size;
  expect_within(values, 2 * d_a.size(), dots, {rounded, rounded}, "dots");
  for (const int in_place : {1, 2}) {
    if (in_place == 1 ? !c.d_a || c.accumulate_a : !c.d_c || c.accumulate_c) continue;
    const auto over = run_blend_backward(kernels_for(best_isa()), c, sizes, before, d, a, b, place, in_place);
    EXPECT_EQ(first_different_bit(values, over), -1);
  }
}

TEST(Elementwise, BlendBackwardIsWithinItsBoundAlsoInPlace) {
  Seeded random;
  const BlendCase cases[] = {{true, true, true, false, false},
                             {true, true, true, true, false},
                             {true, false, false, false, false},
                             {false, true, true, false, true}};
  for (const std::int64_t count : lengths()) {
    for (const BlendCase& c : cases) {
      for (const Place place : kPlaces) check_blend_backward(c, count, place, random);
    }
  }
}

TEST(Elementwise, BlendBackwardReferenceIsTheDerivativeOfTheForwardOne) {
  Seeded random;
  const std::vector<Dual> a = constants(normal(random, 4)), c = constants(normal(random, 4));
  const auto d = normal(random, 4);
  const auto loss = [&](const std::vector<Dual>& x, const std::vector<Dual>& y, Dual weight_a, Dual weight_c) {
    std::vector<Dual> out(4);
    reference::blend_forward(out.data(), x.data(), y.data(), weight_a, weight_c, 4);
    Dual sum(0.0);
    for (std::size_t i = 0; i < 4; ++i) sum += Dual(static_cast<double>(d[i])) * out[i];
    return sum.derivative;
  };
  const double wide_a[4] = {a[0].value, a[1].value, a[2].value, a[3].value};
  const double wide_c[4] = {c[0].value, c[1].value, c[2].value, c[3].value};
  double d_a[4], d_c[4], dot_a, dot_c;
  BlendBackward args{};
  args.count = 4;
  args.weight_a = 0.7f;
  args.weight_c = -0.4f;
  reference::blend_backward(d_a, d_c, &dot_a, &dot_c, widened(d).data(), wide_a, wide_c, args);
  const Dual weight_a(static_cast<double>(args.weight_a)), weight_c(static_cast<double>(args.weight_c));
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<Dual> moved = a;
    moved[i].derivative = 1.0;
    EXPECT_NEAR(loss(moved, c, weight_a, weight_c), d_a[i], 1e-12);
    moved = c;
    moved[i].derivative = 1.0;
    EXPECT_NEAR(loss(a, moved, weight_a, weight_c), d_c[i], 1e-12);
  }
  EXPECT_NEAR(loss(a, c, Dual(weight_a.value, 1.0), weight_c), dot_a, 1e-12);
  EXPECT_NEAR(loss(a, c, weight_a, Dual(weight_c.value, 1.0)), dot_c, 1e-12);
}

}  // namespace
}  // namespace bascule::test::test_elementwise
