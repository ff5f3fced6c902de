// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_group_norm {
namespace {

template <typename Number>
Matrix<Number> group_norm_of(const Matrix<Number>& x, const Matrix<Number>& weight, const Matrix<Number>& bias,
                             std::int64_t pixels, std::int64_t groups, double epsilon, bool silu) {
  using std::sqrt;
  Matrix<Number> y(x.rows, x.cols);
  const std::int64_t width = x.cols / groups;
  const Number elements = static_cast<double>(pixels * width);
  for (std::int64_t first = 0; first < x.rows; first += pixels) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto group = block_of(x, first, pixels, g * width, width);
      Number mean = 0.0, variance = 0.0;
      for (const Number& element : group.values) mean += element / elements;
      for (const Number& element : group.values) variance += (element - mean) * (element - mean) / elements;
      for (std::int64_t r = 0; r < pixels; ++r) {
        for (std::int64_t c = 0; c < width; ++c) {
          const std::int64_t channel = g * width + c;
          const Number z =
              (group(r, c) - mean) / sqrt(variance + Number(epsilon)) * weight(0, channel) + bias(0, channel);
          y(first + r, channel) = silu ? activation_of(z, Activation::kSilu) : z;
        }
      }
    }
  }
  return y;
}

struct Case {
  std::int64_t pixels, channels, groups;
  bool silu;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.pixels << " pixels, " << c.channels << " channels in " << c.groups << (c.silu ? ", silu" : "");
}

class GroupNorms : public ::testing::TestWithParam<Case> {};

constexpr float kEpsilon5 = 1e-5f;

TEST_P(GroupNorms, GradientsAreExact) {
  const Case c = GetParam();
  check_gradients(
      kBounds, some_batches(),
      [=](GraphRun& run) {
        const Tensor x = run.source("x", rows_per_sample(c.pixels), c.channels);
        return std::vector<Tensor>{group_norm(run.graph(), "y", x, run.parameter("w", 1, c.channels),
                                              run.parameter("b", 1, c.channels), c.groups, kEpsilon5, c.silu)};
      },
      [=](const auto& v, const TestBatch& batch) {
        return v.loss({group_norm_of(v.source("x", batch.samples() * c.pixels), v.matrix("w"), v.matrix("b"), c.pixels,
                                     c.groups, static_cast<double>(kEpsilon5), c.silu)});
      });
}

INSTANTIATE_TEST_SUITE_P(Shapes, GroupNorms,
                         ::testing::Values(Case{6, 4, 2, false}, Case{6, 4, 2, true}, Case{5, 17, 17, true},
                                           Case{5, 17, 1, true}, Case{9, 3, 1, false}, Case{9, 3, 3, false},
                                           Case{1, 12, 3, true}, Case{300, 6, 2, true}));

// Of another stream than the samples; x is read twice, so the second gradient is added to the first.
TEST(GroupNorm, GradientsAddUpOverPicturesOfAnyStream) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        Graph& g = run.graph();
        const Tensor x = run.source("x", rows_of_stream(kText, 4), 6), w = run.parameter("w", 1, 6),
                     b = run.parameter("b", 1, 6);
        return std::vector<Tensor>{group_norm(g, "y", x, w, b, 2, kEpsilon5, true),
                                   group_norm(g, "z", x, w, b, 3, kEpsilon5, false)};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto x = v.source("x", batch.text_rows() * 4);
        const auto of = [&](std::int64_t groups, bool silu) {
          return group_norm_of(x, v.matrix("w"), v.matrix("b"), 4, groups, static_cast<double>(kEpsilon5), silu);
        };
        return v.loss({of(2, true), of(3, false)});
      });
}

TEST(GroupNorm, FrozenPartsLeaveTheOthersExact) {
  for (const bool input_trained : {false, true}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Extent rows = rows_per_sample(6);
          const Tensor x = input_trained ? run.source("x", rows, 4) : run.input("x", rows, 4);
          return std::vector<Tensor>{group_norm(run.graph(), "y", x, run.parameter("w", 1, 4, !input_trained),
                                                run.parameter("b", 1, 4, !input_trained), 2, kEpsilon5, true)};
        },
        [=](const auto& v, const TestBatch& batch) {
          const std::int64_t rows = batch.samples() * 6;
          const auto x = input_trained ? v.source("x", rows) : v.input("x", rows);
          return v.loss({group_norm_of(x, v.matrix("w"), v.matrix("b"), 6, 2, static_cast<double>(kEpsilon5), true)});
        });
  }
}

// y takes the place of an x that nobody else reads, and gives the same numbers.
TEST(GroupNorm, WritesOverWhatIsReadNoMore) {
  std::vector<float> first;
  for (const bool kept : {true, false}) {
    GraphRun run(counts_of(2, 1, 1));
    const Tensor x = scale(run.graph(), "x", run.input("input", rows_per_sample(600), 34), 0.5f);
    if (kept) run.graph().keep(x);
    const Tensor y = group_norm(run.graph(), "y", x, run.parameter("w", 1, 34, false), run.parameter("b", 1, 34, false),
                                17, kEpsilon5, true);
    run.graph().keep(y);
    run.seal(kernels_for(best_isa()));
    EXPECT_EQ(run.at(x) == run.at(y), !kept);
    Seeded random(3);
    run.replay(TestBatch(random, {1, 0}, kVocabulary).batch());
    const std::vector<float> values = run.rows_of(y, 1200);
    if (first.empty()) first = values;
    EXPECT_EQ(first_different_bit(values, first), -1);
  }
}

// Several blocks of rows a sample.
TEST(GroupNorm, BitsDoNotDependOnTheNumberOfThreadsOrTheInstructionSet) {
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    for (const Isa isa : {Isa::kAvx2, best_isa()}) {
      if (!isa_supported(isa)) continue;
      GraphRun run(counts_of(2, 1, 1), threads);
      const Tensor x = run.source("x", rows_per_sample(1000), 66);
      const Tensor y =
          group_norm(run.graph(), "y", x, run.parameter("w", 1, 66), run.parameter("b", 1, 66), 6, kEpsilon5, true);
      run.graph().keep(y);
      run.finish({y}, kernels_for(isa));
      Seeded random(3);
      run.replay(TestBatch(random, {1, 0}, kVocabulary).batch());
      std::vector<float> values = run.rows_of(y, 2000);
      const std::vector<float> gradients = run.all_gradients();
      values.insert(values.end(), gradients.begin(), gradients.end());
      if (first.empty()) first = values;
      EXPECT_EQ(first_different_bit(values, first), -1) << threads << " threads, " << isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_group_norm
