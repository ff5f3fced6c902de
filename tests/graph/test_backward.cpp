// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/graph/gradient_check.h"

namespace bascule::test::test_backward {
namespace {

constexpr BatchCounts kBounds = counts_of(4, 30, 10);

std::vector<TestBatch> two_batches() {
  Seeded random(9);
  std::vector<TestBatch> batches;
  batches.emplace_back(random, std::vector<std::int64_t>{2, 5, 1}, 9);
  batches.emplace_back(random, std::vector<std::int64_t>{8, 8, 8, 6}, 9);
  return batches;
}

std::vector<std::string> backward_kinds(const Graph& graph) {
  std::vector<std::string> kinds;
  for (const Node& node : graph.nodes()) {
    if (node.backward) kinds.emplace_back(node.kind->name);
  }
  return kinds;
}

// y = relu(x A) + x, x read by two layers; A used twice more behind it.
TEST(DeriveBackward, SumsTheGradientsOfATensorAndOfAMatrixUsedSeveralTimes) {
  check_gradients(
      kBounds, two_batches(),
      [](GraphRun& run) {
        Graph& g = run.graph();
        const Tensor a = run.parameter("a", 6, 6), x = run.source("x", text_rows(), 6);
        const Tensor once = activation(g, "once", linear(g, "xa", x, a, Tensor{}), Activation::kTanh);
        const Tensor twice = linear(g, "twice", once, a, Tensor{});
        const Tensor thrice = linear(g, "thrice", x, a, Tensor{});
        return std::vector<Tensor>{concatenate(g, "y", twice, x), concatenate(g, "z", thrice, once)};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto x = v.source("x", batch.text_rows());
        auto once = linear_of(x, v.matrix("a"));
        for (auto& element : once.values) element = activation_of(element, Activation::kTanh);
        const auto twice = linear_of(once, v.matrix("a")), thrice = linear_of(x, v.matrix("a"));
        auto y = v.input("cotangent0", x.rows), z = y;
        for (std::int64_t r = 0; r < x.rows; ++r) {
          for (std::int64_t c = 0; c < 6; ++c) {
            y(r, c) = twice(r, c);
            y(r, c + 6) = x(r, c);
            z(r, c) = thrice(r, c);
            z(r, c + 6) = once(r, c);
          }
        }
        return v.loss({y, z});
      });
}

// One matrix as word table and as decoder, whose gradients are a scatter and a product.
TEST(DeriveBackward, SumsTheGradientsOfTiedEmbeddings) {
  constexpr std::int64_t kVocabulary = 9, kWidth = 6;
  std::vector<TestBatch> batches = two_batches();
  Seeded random(10);
  for (TestBatch& batch : batches) {
    for (std::size_t m = 0; m < batch.selected.size(); ++m)
      batch.labels.push_back(static_cast<std::int32_t>(random.integer(-1, kVocabulary - 1)));
  }
  check_gradients(
      counts_of(4, 30, 15), batches,
      [=](GraphRun& run) {
        Graph& g = run.graph();
        const Tensor word = run.parameter("word", kVocabulary, kWidth);
        const Tensor e =
            text_embedding(g, "e", {word, run.parameter("position", 12, kWidth), run.parameter("type", 1, kWidth)},
                           {run.field("token_ids"), run.field("position_ids"), {}}, {1, 1});
        cross_entropy_loss(
            g, linear(g, "logits", gather_rows(g, "selected", e, run.field("selected_rows")), word, Tensor{}),
            run.field("labels"));
        return std::vector<Tensor>{};
      },
      [=](const auto& v, const TestBatch& batch) {
        auto rows = linear_of(v.matrix("word"), v.matrix("word"));  // for its number type
        rows = std::decay_t<decltype(rows)>(static_cast<std::int64_t>(batch.selected.size()), kWidth);
        for (std::int64_t m = 0; m < rows.rows; ++m) {
          const std::size_t row = static_cast<std::size_t>(batch.selected[static_cast<std::size_t>(m)]);
          for (std::int64_t c = 0; c < kWidth; ++c) {
            auto word = v.matrix("word")(batch.ids[row], c);
            if (batch.ids[row] == 1) word.derivative = 0.0;
            rows(m, c) = word + v.matrix("position")(batch.positions[row], c) + v.matrix("type")(0, c);
          }
        }
        return cross_entropy_of(linear_of(rows, v.matrix("word")), batch.labels);
      });
}

// A post-norm residual block and a pre-norm one behind it: gradients of summands are shared, not copied, and added to
// later.
TEST(DeriveBackward, ResidualStreamsAreExact) {
  check_gradients(
      kBounds, two_batches(),
      [](GraphRun& run) {
        Graph& g = run.graph();
        const auto layer = [&](const std::string& name, Tensor x) {
          return activation(
              g, name, linear(g, name + ".up", x, run.parameter(name + ".w", 5, 5), run.parameter(name + ".b", 1, 5)),
              Activation::kGelu);
        };
        const auto norm = [&](const std::string& name, Tensor x, Tensor h) {
          return add_layer_norm(g, name, x, h, run.parameter(name + ".w", 1, 5), run.parameter(name + ".b", 1, 5),
                                1e-5f, {}, {});
        };
        const Tensor x = run.source("x", text_rows(), 5);
        const Normalized post = norm("n1", x, layer("d1", x));
        const Normalized pre = norm("n2", post.y, layer("d2", post.y));
        const Normalized last = norm("n3", pre.sum, layer("d3", pre.y));
        return std::vector<Tensor>{last.y, last.sum};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto layer = [&](const std::string& name, const auto& x) {
          auto y = linear_of(x, v.matrix(name + ".w"), v.matrix(name + ".b"));
          for (auto& element : y.values) element = activation_of(element, Activation::kGelu);
          return y;
        };
        const auto norm = [&](const std::string& name, const auto& x) {
          return layer_norm_of(x, v.matrix(name + ".w"), v.matrix(name + ".b"), static_cast<double>(1e-5f));
        };
        const auto plus = [](auto a, const auto& b) {
          for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
          return a;
        };
        const auto x = v.source("x", batch.text_rows());
        const auto post = norm("n1", plus(x, layer("d1", x)));
        const auto sum = plus(post, layer("d2", post));
        const auto last = plus(sum, layer("d3", norm("n2", sum)));
        return v.loss({norm("n3", last), last});
      });
}

// Three layers, the lower two frozen: nothing below the lowest trained layer has a backward operation.
TEST(DeriveBackward, StopsBelowTheLowestTrainedLayer) {
  GraphRun run(kBounds);
  Graph& g = run.graph();
  Tensor x = run.input("x", text_rows(), 6);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    x = layer_norm(
        g, name + ".norm",
        linear(g, name, x, run.parameter(name + ".w", 6, 6, layer == 2), run.parameter(name + ".b", 1, 6, layer == 2)),
        run.parameter(name + ".norm.w", 1, 6, layer == 2), run.parameter(name + ".norm.b", 1, 6, layer == 2), 1e-5f);
  }
  run.finish({x});
  EXPECT_EQ(backward_kinds(g),
            (std::vector<std::string>{"cotangent_loss_backward", "layer_norm_backward", "linear_backward"}));
  for (const TensorInfo& info : g.tensors()) {
    EXPECT_TRUE(info.storage != Storage::kGradient || run.parameters()[info.parameter].trained) << info.name;
  }
  EXPECT_FALSE(g.find("d_layer1.norm")) << "an input gradient that nobody reads";
}

TEST(DeriveBackward, FrozenParametersWithinATrainedPartHaveNoGradient) {
  const auto reference = [](const auto& v, const TestBatch& batch) {
    return v.loss({linear_of(linear_of(v.source("x", batch.text_rows()), v.matrix("frozen")), v.matrix("top"))});
  };
  check_gradients(
      kBounds, two_batches(),
      [](GraphRun& run) {
        Graph& g = run.graph();
        const Tensor middle =
            linear(g, "middle", run.source("x", text_rows(), 6), run.parameter("frozen", 5, 6, false), Tensor{});
        return std::vector<Tensor>{linear(g, "y", middle, run.parameter("top", 4, 5), Tensor{})};
      },
      reference);
}

TEST(DeriveBackward, WhatTheLossDoesNotReadHasNoBackward) {
  GraphRun run(kBounds);
  Graph& g = run.graph();
  const Tensor x = run.source("x", text_rows(), 6);
  linear(g, "unread", x, run.parameter("unread.w", 3, 6), Tensor{});
  run.finish({linear(g, "read", x, run.parameter("read.w", 3, 6), Tensor{})});
  const std::vector<int> order = gradient_order(g);
  for (const int p : order) EXPECT_NE(run.parameters()[p].name, "unread.w");
  EXPECT_EQ(order.size(), 2u);
}

TEST(GradientOrder, IsTheOrderOfTheLastWrites) {
  GraphRun run(kBounds);
  Graph& g = run.graph();
  const Tensor tied = run.parameter("tied", 6, 6);
  const Tensor x = linear(g, "x", run.input("in", text_rows(), 6), tied, Tensor{});
  const Tensor middle = linear(g, "middle", x, run.parameter("middle.w", 6, 6), run.parameter("middle.b", 1, 6));
  run.finish({linear(g, "y", linear(g, "top", middle, run.parameter("top.w", 6, 6), Tensor{}), tied, Tensor{})});
  std::vector<std::string> names;
  for (const int p : gradient_order(g)) names.push_back(run.parameters()[p].name);
  EXPECT_EQ(names, (std::vector<std::string>{"top.w", "middle.w", "middle.b", "tied"}));
}

TEST(DeriveBackward, ScopesAndTheBackwardMarkFollowTheForwardNodes) {
  GraphRun run(kBounds);
  Graph& g = run.graph();
  g.set_scope("below");
  const Tensor x = run.source("x", text_rows(), 6);
  g.set_scope("above");
  run.finish({linear(g, "y", x, run.parameter("w", 4, 6), Tensor{})});
  std::vector<std::pair<std::string, bool>> scopes;
  for (const Node& node : g.nodes()) scopes.emplace_back(node.scope, node.backward);
  EXPECT_EQ(
      scopes,
      (std::vector<std::pair<std::string, bool>>{
          {"below", false}, {"above", false}, {"above", false}, {"above", true}, {"above", true}, {"below", true}}));
}

// x and h share their sum's gradient. A reader of x between h's producer and the sum would add to h's gradient as well.
void derive_with_a_reader_too_many() {
  GraphRun run(kBounds, 1);
  Graph& g = run.graph();
  const Tensor h = run.source("h", text_rows(), 6), x = run.source("x", text_rows(), 6);
  const Tensor other = activation(g, "other", x, Activation::kGelu);
  const Normalized n = add_layer_norm(g, "n", x, h, run.parameter("w", 1, 6), run.parameter("b", 1, 6), 1e-5f, {}, {});
  run.finish({concatenate(g, "y", n.y, other)});
}

TEST(BackwardDeathTest, AddingToASharedGradientThatIsStillNeededEndsTheProgram) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(derive_with_a_reader_too_many(), "backward.cpp.*producer_");
}

// x + linear(x): the product's backward would read the shared gradient and add to it at once.
void derive_a_product_of_its_own_summand() {
  GraphRun run(kBounds, 1);
  Graph& g = run.graph();
  const Tensor x = run.source("x", text_rows(), 6), h = linear(g, "h", x, run.parameter("m", 6, 6), Tensor{});
  run.finish({add_layer_norm(g, "n", x, h, run.parameter("w", 1, 6), run.parameter("b", 1, 6), 1e-5f, {}, {}).y});
}

TEST(BackwardDeathTest, ReadingAndAddingToASharedGradientAtOnceEndsTheProgram) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(derive_a_product_of_its_own_summand(), "backward.cpp.*producer_");
}

}  // namespace
}  // namespace bascule::test::test_backward
