// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/reference/convolution.h"
#include "src/graph/launch.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"
#include "tests/support/own_products.h"

namespace bascule::test::test_convolution {
namespace {

// From the equations: the picture is enlarged and gets its border, then the window moves over it.
template <typename Number>
Matrix<Number> convolution_of(const Matrix<Number>& x, const Matrix<Number>& weight, const Matrix<Number>& bias,
                              const ConvolutionShape& s) {
  const std::int64_t height = s.enlarged_height > 0 ? s.enlarged_height : s.height;
  const std::int64_t width = s.enlarged_width > 0 ? s.enlarged_width : s.width;
  const std::int64_t samples = x.rows / (s.height * s.width), in = x.cols;
  Matrix<Number> y(0, weight.rows);
  for (std::int64_t b = 0; b < samples; ++b) {
    Matrix<Number> bordered((height + 2) * (width + 2), in);
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t from = (b * s.height + i * s.height / height) * s.width + j * s.width / width;
        for (std::int64_t c = 0; c < in; ++c) bordered((i + 1) * (width + 2) + j + 1, c) = x(from, c);
      }
    }
    for (std::int64_t i = 0; i < height; i += s.stride) {
      for (std::int64_t j = 0; j < width; j += s.stride) {
        for (std::int64_t o = 0; o < weight.rows; ++o) {
          Number sum = bias(0, o);
          for (std::int64_t tap = 0; tap < 9; ++tap) {
            const std::int64_t row = (i + tap / 3) * (width + 2) + j + tap % 3;
            for (std::int64_t c = 0; c < in; ++c) sum += bordered(row, c) * weight(o, tap * in + c);
          }
          y.values.push_back(sum);
        }
        ++y.rows;
      }
    }
  }
  return y;
}

struct Case {
  ConvolutionShape shape;
  std::int64_t in, out;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.shape.height << " x " << c.shape.width << " stride " << c.shape.stride << " enlarged "
             << c.shape.enlarged_height << " x " << c.shape.enlarged_width << " in " << c.in << " out " << c.out;
}

class Convolutions : public ::testing::TestWithParam<Case> {};

Tensor convolution_in(GraphRun& run, const std::string& name, Tensor x, const Case& c, bool trained = true) {
  const Tensor weight = run.parameter(name + ".w", c.out, 9 * c.in, trained);
  return convolution(run.graph(), name, x, weight, run.parameter(name + ".b", 1, c.out, trained), c.shape);
}

TEST_P(Convolutions, GradientsAreExact) {
  const Case c = GetParam();
  check_gradients(
      kBounds, some_batches(),
      [=](GraphRun& run) {
        const Tensor x = run.source("x", rows_per_sample(c.shape.height * c.shape.width), c.in);
        return std::vector<Tensor>{convolution_in(run, "y", x, c)};
      },
      [=](const auto& v, const TestBatch& batch) {
        const auto x = v.source("x", batch.samples() * c.shape.height * c.shape.width);
        return v.loss({convolution_of(x, v.matrix("y.w"), v.matrix("y.b"), c.shape)});
      });
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolutions,
                         ::testing::Values(Case{{1, 1}, 3, 4}, Case{{1, 5}, 4, 3}, Case{{3, 2}, 17, 4},
                                           Case{{3, 2}, 1, 1}, Case{{3, 5, 2}, 3, 5}, Case{{4, 4, 2}, 4, 2},
                                           Case{{1, 1, 2}, 2, 3}, Case{{2, 3, 1, 4, 6}, 3, 2},
                                           Case{{3, 2, 1, 6, 4}, 4, 5}, Case{{1, 1, 1, 2, 2}, 2, 3},
                                           Case{{2, 1, 1, 4, 1}, 2, 3}, Case{{2, 3, 1, 3, 5}, 2, 17},
                                           Case{{1, 2, 2, 3, 7}, 3, 3}));

// The pictures are those of another stream than the samples, and x and the weight are read twice: the second gradient
// is added to the first.
TEST(Convolution, GradientsAddUpOverPicturesOfAnyStream) {
  const Case c{{3, 2}, 3, 4};
  check_gradients(
      kBounds, some_batches(),
      [=](GraphRun& run) {
        const Tensor x = run.source("x", rows_of_stream(kText, 6), c.in), y = convolution_in(run, "y", x, c);
        const Tensor weight = run.graph().find("y.w"), bias = run.graph().find("y.b");
        return std::vector<Tensor>{y, convolution(run.graph(), "z", x, weight, bias, {3, 2, 2})};
      },
      [=](const auto& v, const TestBatch& batch) {
        const auto x = v.source("x", batch.text_rows() * 6);
        return v.loss({convolution_of(x, v.matrix("y.w"), v.matrix("y.b"), c.shape),
                       convolution_of(x, v.matrix("y.w"), v.matrix("y.b"), {3, 2, 2})});
      });
}

// The bias may be computed: a row that a step of the diffusion changes.
TEST(Convolution, ABiasThatIsComputedHasItsGradient) {
  const Case c{{2, 2}, 2, 5};
  check_gradients(
      kBounds, some_batches(),
      [=](GraphRun& run) {
        Graph& g = run.graph();
        const Tensor bias = add_table_row(g, "bias", run.parameter("b", 1, 5), run.parameter("table", 2, 5), 1);
        return std::vector<Tensor>{
            convolution(g, "y", run.source("x", rows_per_sample(4), 2), run.parameter("w", 5, 18), bias, c.shape)};
      },
      [=](const auto& v, const TestBatch& batch) {
        auto bias = v.matrix("b");
        for (std::int64_t o = 0; o < 5; ++o) bias(0, o) += v.matrix("table")(1, o);
        return v.loss({convolution_of(v.source("x", batch.samples() * 4), v.matrix("w"), bias, c.shape)});
      });
}

// Nothing is trained but what is below, or above.
TEST(Convolution, FrozenPartsLeaveTheOthersExact) {
  const Case c{{3, 3}, 2, 2};
  for (const bool input_trained : {false, true}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Extent rows = rows_per_sample(9);
          const Tensor x = input_trained ? run.source("x", rows, 2) : run.input("x", rows, 2);
          return std::vector<Tensor>{convolution_in(run, "y", x, c, !input_trained)};
        },
        [=](const auto& v, const TestBatch& batch) {
          const std::int64_t rows = batch.samples() * 9;
          const auto x = input_trained ? v.source("x", rows) : v.input("x", rows);
          return v.loss({convolution_of(x, v.matrix("y.w"), v.matrix("y.b"), c.shape)});
        });
  }
}

// Winograd's form where a picture has 16 pixels, and channels and outputs are at least 32; elsewhere that of windows,
// which has other bits.
TEST(Convolution, HasTheFormOfItsShape) {
  struct Shape {
    std::int64_t height, width, in, out;
    bool is_winograd;
  };
  for (const Shape& s : {Shape{6, 7, 32, 70, true},
                         {1, 16, 40, 32, true},
                         {3, 5, 32, 32, false},
                         {6, 7, 31, 32, false},
                         {6, 7, 32, 31, false}}) {
    GraphRun run(counts_of(3, 1, 1), 2);
    const Extent rows = rows_per_sample(s.height * s.width);
    const Tensor x = run.input("x", rows, s.in), y = convolution_in(run, "y", x, {{s.height, s.width}, s.in, s.out});
    run.graph().keep(x);
    run.graph().keep(y);
    run.finish({y}, kernels_for(best_isa()));
    Seeded random(7);
    run.replay(TestBatch(random, {1, 0, 2}, kVocabulary).batch());
    const std::int64_t pixels = 3 * s.height * s.width;
    const std::vector<float> read = run.rows_of(x, pixels), values = run.rows_of(y, pixels);
    std::vector<float> winograd(values.size());
    reference::winograd_convolution(
        winograd.data(), read.data(), run.values("y.w").data(), run.values("y.b").data(),
        {nullptr, nullptr, nullptr, nullptr, s.out, 0, 3 * tiles_of(s.height) * tiles_of(s.width), s.out, s.height,
         s.width, s.in, nullptr});
    EXPECT_EQ(first_different_bit(values, winograd) == -1, s.is_winograd)
        << s.height << " x " << s.width << " " << s.in;
  }
}

// Of all steps of a graph, for its largest batch.
std::int64_t tasks_for(int threads, const Graph& graph) {
  OwnProducts products(threads);
  Launch launch(graph, std::vector<void*>(graph.tensors().size()), kernels_for(best_isa()), products);
  for (const Node& node : graph.nodes()) node.kind->launch(NodeView(graph, node), launch);
  Replay replay;
  replay.batch.counts = graph.bounds();
  std::int64_t tasks = 0;
  for (const Step& step : launch.steps()) tasks += step.tasks(step.arguments, replay);
  return tasks;
}

TEST(Convolution, HasATaskForEachOfManyThreads) {
  for (const std::int64_t channels : {16, 64}) {  // of either form
    GraphRun run(counts_of(2, 1, 1), 1);
    const Tensor x = run.input("x", rows_per_sample(256), channels);
    run.graph().keep(convolution_in(run, "y", x, {{16, 16}, channels, 64}, false));
    EXPECT_LT(tasks_for(1, run.graph()), 8);
    EXPECT_GE(tasks_for(16, run.graph()), 16);
  }
}

void expect_equal_bits(const ConvolutionShape& shape) {
  const std::int64_t outputs = 24 * 24;
  std::vector<float> first;
  const Isa another = isa_supported(Isa::kAvx2) ? Isa::kAvx2 : best_isa();
  for (const auto& [threads, isa] : {std::pair{1, best_isa()}, std::pair{3, another}, std::pair{16, best_isa()}}) {
    GraphRun run(counts_of(2, 1, 1), threads);
    const Tensor x = run.source("x", rows_per_sample(shape.height * shape.width), 400);
    const Tensor y = convolution_in(run, "y", x, {shape, 400, 410});
    run.graph().keep(y);
    run.finish({y}, kernels_for(isa));
    Seeded random(3);
    run.replay(TestBatch(random, {1, 0}, kVocabulary).batch());
    std::vector<float> values = run.rows_of(y, 2 * outputs);
    const std::vector<float> gradients = run.all_gradients();
    values.insert(values.end(), gradients.begin(), gradients.end());
    if (first.empty()) first = values;
    EXPECT_EQ(first_different_bit(values, first), -1) << threads << " threads, " << isa_name(isa);
  }
}

// Several tiles down and across, several chunks of windows, and more channels than a tile is wide.
TEST(Convolution, BitsDoNotDependOnTheNumberOfThreadsOrTheInstructionSet) {
  expect_equal_bits({24, 24});
  expect_equal_bits({12, 12, 1, 24, 24});
}

}  // namespace
}  // namespace bascule::test::test_convolution
