// SPDX-License-Identifier: Apache-2.0
// bf16 mixed precision: which tensors are bf16, and what comes out.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/graph/element_types.h"
#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"
#include "tests/graph/some_layers.h"

namespace bascule::test::test_element_types {
namespace {

constexpr std::int64_t kClasses = 7;

// Two layers below a head, for training.
void record(GraphRun& run) {
  Graph& g = run.graph();
  Tensor y = run.source("x", text_rows(), kLayerWidth);
  for (int number = 0; number < 2; ++number) y = post_norm_layer(run, number, y);
  const Tensor logits = linear(g, "logits", y, run.parameter("head.w", kClasses, kLayerWidth), Tensor{});
  cross_entropy_loss(g, logits, run.field("labels"));
  derive_backward(g);
}

DType type_of(const Graph& graph, const std::string& name) {
  const Tensor tensor = graph.find(name);
  EXPECT_TRUE(tensor) << name;
  return tensor ? graph[tensor].dtype : DType::kBool;
}

TEST(ElementTypes, ForwardRoundsOperandsOfProductsAlone) {
  GraphRun run(kBounds);
  record(run);
  const Graph& g = run.graph();
  choose_element_types(run.graph());
  const std::string layer = "layer1/layer1";
  for (const char* name : {".attention", ".gelu"}) EXPECT_EQ(type_of(g, layer + name), DType::kBFloat16) << name;
  for (const char* name : {".qkv", ".up", ".norm1"}) {
    EXPECT_EQ(type_of(g, layer + name), DType::kFloat32) << name;
    EXPECT_EQ(type_of(g, layer + name + std::string(".bf16")), DType::kBFloat16) << name;
  }
  for (const char* name : {".out", ".down", ".norm1.sum", ".norm1.mean", ".attention.logsumexp"})
    EXPECT_EQ(type_of(g, layer + name), DType::kFloat32) << name;
  for (const char* name :
       {"layer1/d_layer1.qkv", "layer1/d_layer1.attention", "layer1/d_layer1.up", "layer1/d_layer1.gelu"})
    EXPECT_EQ(type_of(g, name), DType::kBFloat16) << name;
  EXPECT_EQ(type_of(g, "layer1/d_layer1.norm1"), DType::kFloat32);
  EXPECT_TRUE(has_bf16_products(g));
}

TEST(ElementTypes, CostsCountTheBytesOfEachType) {
  GraphRun run(kBounds);
  record(run);
  const Graph& g = run.graph();
  const auto bytes_of_gelu = [&g] {
    for (const Node& node : g.nodes()) {
      if (!node.backward && std::string(node.kind->name) == "activation") return cost_of(g, node, g.bounds()).bytes;
    }
    return 0.0;
  };
  const double float32 = bytes_of_gelu();
  EXPECT_GT(float32, 0.0);
  choose_element_types(run.graph());
  EXPECT_EQ(bytes_of_gelu() * 8.0, float32 * 6.0);  // reads float32, writes bf16
}

TEST(LayerKind, ReplacesNumbersBetweenDots) {
  EXPECT_EQ(layer_kind("text_model.encoder.layer.11"), "text_model.encoder.layer.*");
  EXPECT_EQ(layer_kind("a.3.b2.4"), "a.*.b2.*");
  EXPECT_EQ(layer_kind(""), "");
}

// Tensors that backward reads late are bf16: nothing of the layer but sums and statistics is kept in float32.
TEST(ElementTypes, BackwardReadsCopies) {
  GraphRun run(kBounds);
  record(run);
  choose_element_types(run.graph());
  const Graph& g = run.graph();
  for (const Node& node : g.nodes()) {
    if (!node.backward) continue;
    for (const Operand& operand : node.operands) {
      if (!operand || operand.access == Access::kWrite) continue;
      const std::string& name = g[operand.tensor].name;
      for (const char* kept : {".qkv", ".up", ".norm1", ".gelu", ".attention"}) {
        const std::string layer = "layer0/layer0";
        EXPECT_FALSE(name == layer + kept && g[operand.tensor].dtype == DType::kFloat32) << name;
      }
    }
  }
}

TEST(ElementTypes, ProductsOverOneRowASampleStayFloat32) {
  GraphRun run(kBounds);
  Graph& g = run.graph();
  const Tensor x = run.source("x", text_rows(), kLayerWidth);
  const Tensor first = first_rows(g, "first", x, run.text());
  const Tensor pooled = activation(
      g, "tanh", linear(g, "pooler", first, run.parameter("pooler.w", 5, kLayerWidth), Tensor{}), Activation::kTanh);
  run.finish({pooled});
  choose_element_types(g);
  for (const char* name : {"first", "pooler", "tanh"}) EXPECT_EQ(type_of(g, name), DType::kFloat32) << name;
  for (const Node& node : g.nodes()) {
    const bool is_product = node.kind->rounding_places != 0;
    const bool of_pooler = is_product && NodeView(g, node).rows(0) == rows_per_sample(1);
    EXPECT_EQ(node.bf16_products, is_product && !of_pooler) << node.kind->name;
  }
}

// Of one row in all, too: a timestep's embedding.
TEST(ElementTypes, AProductOverOneRowStaysFloat32) {
  GraphRun run(kBounds);
  Graph& g = run.graph();
  const Tensor row = linear(g, "row", run.source("one", fixed_rows(1), 4), run.parameter("row.w", 5, 4), Tensor{});
  const Tensor rows = linear(g, "rows", run.source("two", fixed_rows(2), 4), run.parameter("rows.w", 5, 4), Tensor{});
  run.finish({row, rows});
  choose_element_types(g);
  for (const Node& node : g.nodes()) {
    if (node.backward || node.kind->rounding_places == 0) continue;
    EXPECT_EQ(node.bf16_products, NodeView(g, node).rows(0).fixed == 2);
  }
}

// Without gradients: what attention and activation functions read is float32 for evaluation in training, bf16 where a
// model is not trained. What a norm reads, and what is added, is float32 in both.
TEST(ElementTypes, AllReadersMayRoundWhereNothingTrains) {
  for (const Rounding rounding : {Rounding::kOfProducts, Rounding::kOfReaders}) {
    GraphRun run(kBounds);
    Tensor y = run.source("x", text_rows(), kLayerWidth);
    for (int number = 0; number < 2; ++number) y = post_norm_layer(run, number, y);
    choose_element_types(run.graph(), rounding);
    const Graph& g = run.graph();
    const DType read = rounding == Rounding::kOfReaders ? DType::kBFloat16 : DType::kFloat32;
    const std::string layer = "layer0/layer0";
    for (const char* name : {".attention", ".gelu"}) EXPECT_EQ(type_of(g, layer + name), DType::kBFloat16) << name;
    for (const char* name : {".qkv", ".up"}) EXPECT_EQ(type_of(g, layer + name), read) << name;
    for (const char* name : {".out", ".down", ".norm1", ".norm1.sum"})
      EXPECT_EQ(type_of(g, layer + name), DType::kFloat32) << name;
  }
}

// Both products of `y` add to its gradient; the products that read the sum round it themselves.
TEST(ElementTypes, SumsOfGradientsAreFloat32) {
  GraphRun run(kBounds);
  Graph& g = run.graph();
  const Tensor y = linear(g, "y", run.source("x", text_rows(), kLayerWidth),
                          run.parameter("y.w", kLayerWidth, kLayerWidth), Tensor{});
  for (const char* name : {"a", "b"}) {
    const Tensor logits = linear(g, name, y, run.parameter(std::string(name) + ".w", kClasses, kLayerWidth), Tensor{});
    cross_entropy_loss(g, logits, run.field("labels"));
  }
  derive_backward(g);
  choose_element_types(g);
  EXPECT_EQ(type_of(g, "d_y"), DType::kFloat32);
}

double one_minus_cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0.0, squares_a = 0.0, squares_b = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    product += x * y;
    squares_a += x * x;
    squares_b += y * y;
  }
  return 1.0 - product / std::sqrt(squares_a * squares_b);
}

TEST(ElementTypes, GradientsAreThoseOfFloat32RoundedWithTheSameBitsEverywhere) {
  const std::vector<TestBatch> batches = labelled_batches(kClasses);
  GraphRun plain(kBounds);
  record(plain);
  plain.seal(kernels_for(best_isa()));
  std::vector<std::vector<float>> first;  // by batch
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    for (const int threads : {1, 3}) {
      GraphRun run(kBounds, threads);
      record(run);
      choose_element_types(run.graph());
      run.seal(kernels_for(isa));
      for (std::size_t b = 0; b < batches.size(); ++b) {
        run.replay(batches[b].batch(), 1.0f, false, 3);
        const std::vector<float> gradients = run.all_gradients();
        if (first.size() == b) {
          first.push_back(gradients);
          plain.replay(batches[b].batch(), 1.0f, false, 3);
          EXPECT_LE(one_minus_cosine(gradients, plain.all_gradients()), 1e-3);
          EXPECT_NE(first_different_bit(gradients, plain.all_gradients()), -1);
        }
        EXPECT_EQ(first_different_bit(gradients, first[b]), -1) << isa_name(isa) << ", " << threads << " threads";
      }
    }
  }
}

// Steps in place need elements of one size: a bf16 tensor would lie over float32 numbers that are still to be read.
TEST(ElementTypes, NoTensorTakesThePlaceOfOneOfAnotherType) {
  GraphRun run(kBounds);
  record(run);
  choose_element_types(run.graph());
  const WorkspacePlan plan = plan_workspace(run.graph());
  for (const WorkspaceBuffer& buffer : plan.buffers) {
    for (const Tensor tensor : buffer.tensors)
      EXPECT_EQ(run.graph()[tensor].dtype, run.graph()[buffer.tensors.front()].dtype) << run.graph()[tensor].name;
  }
  GraphRun plain(kBounds);
  record(plain);
  EXPECT_LT(plan.bytes, plan_workspace(plain.graph()).bytes);
}

}  // namespace
}  // namespace bascule::test::test_element_types
