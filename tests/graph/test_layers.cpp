// SPDX-License-Identifier: Apache-2.0
// Products, norms, activations, blends and other operations on rows against exact derivatives of plain loops in
// float64, at odd widths and batch sizes. Cotangents are random, so that a wrong row or column cannot cancel.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_layers {
namespace {

TEST(Graph, AFieldIsRecordedOnceAndIsNoOtherTensorOfItsName) {
  GraphRun run(kBounds);
  Graph& graph = run.graph();
  const Tensor input = graph.input("labels", fixed_rows(3), 5);
  const Tensor field = graph.field("labels");
  EXPECT_NE(field.index, input.index);
  EXPECT_EQ(graph[field].storage, Storage::kField);
  EXPECT_EQ(graph.field("labels").index, field.index);
  EXPECT_NE(graph.field("token_ids").index, field.index);
}

TEST(Linear, GradientsOfInputWeightAndBiasAreExact) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor x = run.source("x", text_rows(), 11);
        return std::vector<Tensor>{linear(run.graph(), "y", x, run.parameter("w", 19, 11), run.parameter("b", 1, 19))};
      },
      [](const auto& v, const TestBatch& batch) {
        return v.loss({linear_of(v.source("x", batch.text_rows()), v.matrix("w"), v.matrix("b"))});
      });
}

TEST(Linear, WorksOnManyRowsASample) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor x = run.source("x", rows_per_sample(13), 3);
        return std::vector<Tensor>{linear(run.graph(), "y", x, run.parameter("w", 1, 3), Tensor{})};
      },
      [](const auto& v, const TestBatch& batch) {
        return v.loss({linear_of(v.source("x", 13 * batch.samples()), v.matrix("w"))});
      });
}

// Rows are summed block by block, of eight rows at this width. A bias is added to every row, so its gradient is the sum
// of the rows' cotangents.
void expect_bias_gradient_of_all_blocks(Tensor (*build)(GraphRun&, Tensor bias)) {
  constexpr std::int64_t kWidth = 4100;
  GraphRun run(kBounds);
  const Tensor bias = run.parameter("b", 1, kWidth);
  run.finish({build(run, bias)});
  const TestBatch batch = some_batches().back();
  run.replay(batch.batch());
  const std::vector<float> cotangent = run.values("cotangent0"), gradient = run.gradient("b");
  ASSERT_GT(batch.text_rows(), 3 * rows_per_task(kWidth));
  for (std::size_t c = 0; c < kWidth; ++c) {
    double sum = 0.0;
    for (std::int64_t r = 0; r < batch.text_rows(); ++r)
      sum += static_cast<double>(cotangent[static_cast<std::size_t>(r * kWidth) + c]);
    ASSERT_NEAR(static_cast<double>(gradient[c]), sum, 1e-5) << c;
  }
}

TEST(Linear, BiasGradientsAreOfAllBlocksOfRows) {
  expect_bias_gradient_of_all_blocks([](GraphRun& run, Tensor bias) {
    return linear(run.graph(), "y", run.source("x", text_rows(), 3), run.parameter("w", 4100, 3), bias);
  });
}

TEST(LayerNorm, BiasGradientsAreOfAllBlocksOfRows) {
  expect_bias_gradient_of_all_blocks([](GraphRun& run, Tensor bias) {
    return layer_norm(run.graph(), "y", run.source("x", text_rows(), 4100), run.parameter("w", 1, 4100), bias, 1e-5f);
  });
}

// Memory behind sums that are too long for theirs is often nobody's while they are there, and no value shows it.
TEST(LayerNorm, HasRoomForTheSumsOfWeightAndBias) {
  for (const std::int64_t width : {9, 16, 4100}) {
    GraphRun run(kBounds);
    run.finish({layer_norm(run.graph(), "y", run.source("x", text_rows(), width), run.parameter("w", 1, width),
                           run.parameter("b", 1, width), 1e-5f)});
    EXPECT_EQ(run.graph()[run.graph().find("norm_parts")].cols, 2 * width);
  }
}

TEST(LayerNorm, AFrozenWeightOrBiasLeavesTheOtherExact) {
  for (const bool weight_trained : {false, true}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor x = run.source("x", text_rows(), 9), weight = run.parameter("w", 1, 9, weight_trained);
          return std::vector<Tensor>{
              layer_norm(run.graph(), "y", x, weight, run.parameter("b", 1, 9, !weight_trained), 1e-5f)};
        },
        [](const auto& v, const TestBatch& batch) {
          return v.loss({layer_norm_of(v.source("x", batch.text_rows()), v.matrix("w"), v.matrix("b"),
                                       static_cast<double>(1e-5f))});
        });
  }
}

TEST(LayerNorm, GradientsAreExact) {
  for (const std::int64_t width : {5, 17, 33}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor x = run.source("x", text_rows(), width);
          return std::vector<Tensor>{
              layer_norm(run.graph(), "y", x, run.parameter("w", 1, width), run.parameter("b", 1, width), 1e-5f)};
        },
        [](const auto& v, const TestBatch& batch) {
          return v.loss({layer_norm_of(v.source("x", batch.text_rows()), v.matrix("w"), v.matrix("b"),
                                       static_cast<double>(1e-5f))});
        });
  }
}

TEST(RmsNorm, GradientsAreExact) {
  for (const std::int64_t width : {5, 17, 33}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor x = run.source("x", text_rows(), width);
          return std::vector<Tensor>{rms_norm(run.graph(), "y", x, run.parameter("w", 1, width), 1e-5f)};
        },
        [](const auto& v, const TestBatch& batch) {
          return v.loss({rms_norm_of(v.source("x", batch.text_rows()), v.matrix("w"), static_cast<double>(1e-5f))});
        });
  }
}

// Rows are summed block by block, of eight rows at this width.
TEST(RmsNorm, WeightGradientsAreOfAllBlocksOfRows) {
  constexpr std::int64_t kWidth = 4100;
  GraphRun run(kBounds);
  run.finish({rms_norm(run.graph(), "y", run.input("x", text_rows(), kWidth), run.parameter("w", 1, kWidth), 1e-5f)});
  const TestBatch batch = some_batches().back();
  run.replay(batch.batch());
  const std::vector<float> cotangent = run.values("cotangent0"), x = run.values("x"), gradient = run.gradient("w");
  std::vector<double> sums(kWidth, 0.0);
  ASSERT_GT(batch.text_rows(), 3 * rows_per_task(kWidth));
  for (std::int64_t r = 0; r < batch.text_rows(); ++r) {
    const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(r * kWidth + c); };
    double squares = 0.0;
    for (std::int64_t c = 0; c < kWidth; ++c) squares += std::pow(static_cast<double>(x[at(c)]), 2) / kWidth;
    for (std::int64_t c = 0; c < kWidth; ++c)
      sums[static_cast<std::size_t>(c)] +=
          static_cast<double>(cotangent[at(c)]) * static_cast<double>(x[at(c)]) / std::sqrt(squares + 1e-5);
  }
  for (std::size_t c = 0; c < kWidth; ++c) ASSERT_NEAR(static_cast<double>(gradient[c]), sums[c], 1e-4) << c;
}

// Which of the two summands are trained, and whether the sum has a reader of its own.
struct SumCase {
  bool x_trained, h_trained, sum_read;
};

class AddNorm : public ::testing::TestWithParam<SumCase> {};

void expect_exact_sum_and_norm(const SumCase& c, bool has_mean) {
  check_gradients(
      kBounds, some_batches(),
      [=](GraphRun& run) {
        const Tensor x = c.x_trained ? run.source("x", text_rows(), 13) : run.input("x", text_rows(), 13);
        const Tensor h = c.h_trained ? run.source("h", text_rows(), 13) : run.input("h", text_rows(), 13);
        const Tensor w = run.parameter("w", 1, 13), b = has_mean ? run.parameter("b", 1, 13) : Tensor{};
        const Normalized n = has_mean ? add_layer_norm(run.graph(), "n", x, h, w, b, 1e-3f, {}, {})
                                      : add_rms_norm(run.graph(), "n", x, h, w, 1e-3f, {}, {});
        return c.sum_read ? std::vector<Tensor>{n.y, n.sum} : std::vector<Tensor>{n.y};
      },
      [=](const auto& v, const TestBatch& batch) {
        const auto h = c.h_trained ? v.source("h", batch.text_rows()) : v.input("h", batch.text_rows());
        auto sum = c.x_trained ? v.source("x", batch.text_rows()) : v.input("x", batch.text_rows());
        for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += h.values[i];
        constexpr double kEpsilon = static_cast<double>(1e-3f);
        const auto y = has_mean ? layer_norm_of(sum, v.matrix("w"), v.matrix("b"), kEpsilon)
                                : rms_norm_of(sum, v.matrix("w"), kEpsilon);
        return c.sum_read ? v.loss({y, sum}) : v.loss({y});
      });
}

TEST_P(AddNorm, OfALayerHasExactGradients) { expect_exact_sum_and_norm(GetParam(), true); }
TEST_P(AddNorm, OfRootMeanSquaresHasExactGradients) { expect_exact_sum_and_norm(GetParam(), false); }

INSTANTIATE_TEST_SUITE_P(Summands, AddNorm,
                         ::testing::Values(SumCase{true, true, false}, SumCase{true, true, true},
                                           SumCase{true, false, true}, SumCase{false, true, true},
                                           SumCase{false, true, false}, SumCase{false, false, false}));

TEST(ActivationOperation, GradientOfEachKindIsExact) {
  for (const Activation kind : {Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu, Activation::kRelu,
                                Activation::kSilu, Activation::kTanh, Activation::kSigmoid, Activation::kLinear}) {
    SCOPED_TRACE(static_cast<int>(kind));
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          return std::vector<Tensor>{activation(run.graph(), "y", run.source("x", text_rows(), 21), kind)};
        },
        [=](const auto& v, const TestBatch& batch) {
          auto y = v.source("x", batch.text_rows());
          for (auto& element : y.values) element = activation_of(element, kind);
          return v.loss({y});
        });
  }
}

TEST(GateOperation, GradientsOfBothHalvesAreExactForEachKind) {
  for (const Activation kind : {Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu, Activation::kRelu,
                                Activation::kSilu, Activation::kTanh, Activation::kSigmoid, Activation::kLinear}) {
    SCOPED_TRACE(static_cast<int>(kind));
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          return std::vector<Tensor>{gate(run.graph(), "y", run.source("x", text_rows(), 2 * 21), kind, {}, {})};
        },
        [=](const auto& v, const TestBatch& batch) {
          const auto x = v.source("x", batch.text_rows());
          auto y = v.input("cotangent0", batch.text_rows());  // for its shape
          for (std::int64_t r = 0; r < y.rows; ++r) {
            for (std::int64_t c = 0; c < y.cols; ++c) y(r, c) = activation_of(x(r, c), kind) * x(r, y.cols + c);
          }
          return v.loss({y});
        });
  }
}

TEST(GateOperation, ActivatesTheSecondHalfWithExactGradients) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        return std::vector<Tensor>{gate(run.graph(), "y", run.source("x", text_rows(), 2 * 21), Activation::kGelu, {},
                                        {}, GatedHalf::kSecond)};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto x = v.source("x", batch.text_rows());
        auto y = v.input("cotangent0", batch.text_rows());  // for its shape
        for (std::int64_t r = 0; r < y.rows; ++r) {
          for (std::int64_t c = 0; c < y.cols; ++c)
            y(r, c) = x(r, c) * activation_of(x(r, y.cols + c), Activation::kGelu);
        }
        return v.loss({y});
      });
}

// All rows, then all once more; x is also read once by itself.
TEST(RepeatOperation, GradientsAreTheSumsOfTheCopies) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor x = run.source("x", text_rows(), 13);
        return std::vector<Tensor>{repeat_rows(run.graph(), "y", x, text_rows().times(3)),
                                   scale(run.graph(), "z", x, 0.5f), repeat_rows(run.graph(), "same", x, text_rows())};
      },
      [](const auto& v, const TestBatch& batch) {
        auto x = v.source("x", batch.text_rows());
        auto y = v.input("cotangent0", 3 * batch.text_rows()), z = x;
        for (std::int64_t r = 0; r < y.rows; ++r) {
          for (std::int64_t c = 0; c < y.cols; ++c) y(r, c) = x(r % x.rows, c);
        }
        for (auto& element : z.values) element *= 0.5;
        return v.loss({y, z, x});
      });
}

// a is read twice, b once, and the sum of both by the loss as well.
TEST(AddOperation, GradientsAreExactAlsoWhereTheyAdd) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor a = run.source("x", text_rows(), 11), b = run.source("h", text_rows(), 11);
        const Tensor y = add(run.graph(), "y", a, b);
        return std::vector<Tensor>{add(run.graph(), "z", y, a), y};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto a = v.source("x", batch.text_rows()), b = v.source("h", batch.text_rows());
        auto y = a, z = a;
        for (std::size_t i = 0; i < y.values.size(); ++i) {
          y.values[i] += b.values[i];
          z.values[i] = y.values[i] + a.values[i];
        }
        return v.loss({z, y});
      });
}

// x is read twice: once a gradient is written, once it is added to.
TEST(ScaleOperation, GradientsAreExactAlsoWhereTheyAdd) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor x = run.source("x", text_rows(), 11);
        return std::vector<Tensor>{scale(run.graph(), "y", x, 0.125f), scale(run.graph(), "z", x, -3.0f)};
      },
      [](const auto& v, const TestBatch& batch) {
        auto y = v.source("x", batch.text_rows()), z = y;
        for (auto& element : y.values) element *= Dual(0.125);
        for (auto& element : z.values) element *= Dual(-3.0);
        return v.loss({y, z});
      });
}

TEST(Concatenate, EachHalfGetsItsColumns) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor a = run.source("a", rows_per_sample(1), 3), b = run.source("b", rows_per_sample(1), 8);
        return std::vector<Tensor>{concatenate(run.graph(), "y", a, b),
                                   concatenate(run.graph(), "z", b, run.input("fixed", rows_per_sample(1), 2))};
      },
      [](const auto& v, const TestBatch& batch) {
        const std::int64_t rows = batch.samples();
        const auto a = v.source("a", rows), b = v.source("b", rows), fixed = v.input("fixed", rows);
        auto y = v.input("cotangent0", rows), z = v.input("cotangent1", rows);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < 11; ++c) y(r, c) = c < 3 ? a(r, c) : b(r, c - 3);
          for (std::int64_t c = 0; c < 10; ++c) z(r, c) = c < 8 ? b(r, c) : fixed(r, c - 8);
        }
        return v.loss({y, z});
      });
}

// Both rows of one table, as text and image streams use it; a third row that nobody reads has no gradient.
TEST(AddTableRow, RowsOfOneTableGetTheirOwnGradients) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        Graph& g = run.graph();
        const Tensor table = run.parameter("table", 3, 6);
        const Tensor a = add_table_row(g, "a", run.parameter("bias_a", 1, 6), table, 0),
                     b = add_table_row(g, "b", run.parameter("bias_b", 1, 6), table, 1);
        const Tensor w = run.parameter("w", 6, 4), x = run.input("x", text_rows(), 4);
        return std::vector<Tensor>{linear(g, "y", x, w, a), linear(g, "z", x, w, b)};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto with_row = [&](const char* bias, std::int64_t index) {
          auto sum = v.matrix(bias);
          for (std::int64_t c = 0; c < sum.cols; ++c) sum(0, c) += v.matrix("table")(index, c);
          return linear_of(v.input("x", batch.text_rows()), v.matrix("w"), sum);
        };
        return v.loss({with_row("bias_a", 0), with_row("bias_b", 1)});
      });
}

TEST(BlendOperation, GradientsOfBothStreamsAndTheFactorAreExact) {
  for (const Blend kind : {Blend::kScaled, Blend::kInterpolate}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor a = run.source("a", text_rows(), 9), c = run.source("c", text_rows(), 9);
          return std::vector<Tensor>{blend(run.graph(), "y", kind, a, c, run.parameter("factor", 1, 1))};
        },
        [=](const auto& v, const TestBatch& batch) {
          auto y = v.source("a", batch.text_rows());
          const auto c = v.source("c", batch.text_rows());
          const auto factor = v.matrix("factor")(0, 0);
          for (std::size_t i = 0; i < y.values.size(); ++i) {
            y.values[i] = kind == Blend::kScaled ? y.values[i] * factor + c.values[i]
                                                 : y.values[i] * (Dual(1.0) - factor) + c.values[i] * factor;
          }
          return v.loss({y});
        });
  }
}

TEST(Normalize, GradientsAreExact) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        return std::vector<Tensor>{normalize(run.graph(), "y", run.source("x", rows_per_sample(1), 19))};
      },
      [](const auto& v, const TestBatch& batch) { return v.loss({normalized_of(v.source("x", batch.samples()))}); });
}

}  // namespace
}  // namespace bascule::test::test_layers
