// SPDX-License-Identifier: Apache-2.0
// Recomputation of whole models: bits, and what is kept.
#include "src/graph/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/operations.h"
#include "src/models/bridgetower.h"
#include "tests/graph/graph_run.h"
#include "tests/models/published_configs.h"
#include "tests/support/error_bound.h"

namespace bascule::test::test_recompute {
namespace {

// Two cross-modal layers with one tower layer below them; everything drops.
BridgeTowerConfig small_config(LinkTower link) {
  BridgeTowerConfig config;
  config.contrastive_hidden_size = 12;
  config.has_logit_scale = true;
  config.hidden_size = config.text.hidden_size = 24;
  config.num_hidden_layers = 2;
  config.text.num_hidden_layers = config.vision.num_hidden_layers = 3;
  config.text.num_attention_heads = 4;
  config.text.intermediate_size = 40;
  config.text.vocab_size = 50;
  config.text.max_position_embeddings = 40;
  config.text.hidden_dropout_prob = config.text.attention_probs_dropout_prob = 0.3f;
  config.vision.hidden_size = 64;
  config.vision.image_size = 16;
  config.vision.patch_size = 8;
  config.link_tower_type = link;
  config.share_cross_modal_transformer_layers = link != LinkTower::kInterpolate;
  return config;
}

TestBatch batch_for(const BridgeTowerConfig& config, ModelHead head, const std::vector<std::int64_t>& lengths) {
  Seeded random(61);
  TestBatch batch(random, lengths, config.text.vocab_size, 3);
  const std::int64_t side = config.vision.image_size;
  batch.add_pictures(random, config.vision.num_channels * side * side, image_rows(config, side, side));
  const std::size_t labels = head == ModelHead::kMaskedLm ? batch.selected.size() : lengths.size();
  const std::int64_t classes = head == ModelHead::kMaskedLm ? config.text.vocab_size : 2;
  for (std::size_t i = 0; i < labels; ++i)
    batch.labels.push_back(static_cast<std::int32_t>(random.integer(0, classes - 1)));
  return batch;
}

constexpr ModelHead kHeads[] = {ModelHead::kContrastive, ModelHead::kImageTextMatching, ModelHead::kMaskedLm};

// The same everywhere, or for a seed above them a random choice for each layer.
std::vector<Recompute> choice_of(const Graph& graph, int number) {
  std::vector<Recompute> choice(layers_of(graph).size(), static_cast<Recompute>(number));
  Seeded random(static_cast<std::uint64_t>(number));
  for (Recompute& layer : choice) {
    if (number > 2) layer = static_cast<Recompute>(random.integer(0, 2));
  }
  return choice;
}

BridgeTowerOutputs record(Graph& graph, const BridgeTowerConfig& config, ModelHead head, const std::string& frozen) {
  BridgeTowerOptions options;
  options.head = head;
  options.dropout = true;
  if (!frozen.empty()) options.frozen = {frozen};
  const BridgeTowerOutputs out = record_bridgetower(graph, config, options);
  derive_backward(graph);
  return out;
}

// Nothing is read before it is written, and what backward reads of a layer that is recomputed whole is either a copy or
// written by a node that other layers read from.
void expect_right_reads(const Graph& graph, std::size_t recorded_tensors) {
  std::vector<bool> written(graph.tensors().size(), false);
  for (const Node& node : graph.nodes()) {
    for (const Operand& operand : node.operands) {
      if (!operand || graph[operand.tensor].storage != Storage::kActivation) continue;
      const std::size_t t = static_cast<std::size_t>(operand.tensor.index);
      if (operand.access == Access::kWrite) {
        EXPECT_FALSE(node.again && t < recorded_tensors) << "a copy writes " << graph[operand.tensor].name;
        written[t] = true;
      }
      EXPECT_TRUE(written[t]) << graph[operand.tensor].name << " is read before it is written";
    }
  }
}

std::vector<float> bits_of_a_step(const BridgeTowerConfig& config, ModelHead head, const std::string& frozen,
                                  int number) {
  GraphRun run(counts_of(6, 90, 30));
  const BridgeTowerOutputs out = record(run.graph(), config, head, frozen);
  const std::size_t tensors = run.graph().tensors().size(), nodes = run.graph().nodes().size();
  recompute(run.graph(), choice_of(run.graph(), number));
  EXPECT_EQ(run.graph().nodes().size() > nodes, number > 0);
  expect_right_reads(run.graph(), tensors);
  run.seal(kernels_for(best_isa()));
  std::vector<float> bits;
  const TestBatch first = batch_for(config, head, {17, 3, 30, 9, 1, 30}), second = batch_for(config, head, {5, 12});
  for (const TestBatch* batch : {&first, &second}) {
    run.replay(batch->batch(), 0.5f, batch == &second, 3);
    bits.push_back(*run.at(out.loss));
  }
  const std::vector<float> gradients = run.all_gradients();
  bits.insert(bits.end(), gradients.begin(), gradients.end());
  return bits;
}

TEST(RecomputeModels, EveryChoiceGivesTheSameBitsForEveryHeadAndLinkTower) {
  for (const LinkTower link : {LinkTower::kAdd, LinkTower::kScaledAdd, LinkTower::kInterpolate}) {
    for (const ModelHead head : kHeads) {
      const std::vector<float> kept = bits_of_a_step(small_config(link), head, {}, 0);
      for (int number = 1; number < 8; ++number) {
        EXPECT_EQ(first_different_bit(bits_of_a_step(small_config(link), head, {}, number), kept), -1)
            << architecture_name(head) << ", choice " << number;
      }
    }
  }
}

TEST(RecomputeModels, FrozenTowersDoNotChangeThat) {
  const BridgeTowerConfig config = small_config(LinkTower::kAdd);
  for (const char* frozen : {"vision_model", "text_model"}) {
    const std::vector<float> kept = bits_of_a_step(config, ModelHead::kContrastive, frozen, 0);
    for (const int number : {1, 2, 5})
      EXPECT_EQ(first_different_bit(bits_of_a_step(config, ModelHead::kContrastive, frozen, number), kept), -1);
  }
}

// Activations in the range of gradients: the same gradients, and what lies between them is left as it was.
TEST(RecomputeModels, ActivationsInTheRangeOfGradientsChangeNoGradientAndNothingBetweenThem) {
  for (const ModelHead head : kHeads) {
    for (int number = 0; number < 5; ++number) {
      std::vector<float> gradients[2];
      for (const bool in_gradients : {false, true}) {
        const BridgeTowerConfig config = small_config(LinkTower::kScaledAdd);
        GraphRun run(counts_of(6, 90, 30));
        (void)record(run.graph(), config, head, {});
        recompute(run.graph(), choice_of(run.graph(), number));
        run.seal(kernels_for(best_isa()), in_gradients);
        const std::vector<float> before = run.all_gradients();
        run.replay(batch_for(config, head, {17, 3, 30, 9, 1, 30}).batch(), 1.0f, false, 3);
        gradients[in_gradients ? 1 : 0] = run.all_gradients();
        std::vector<bool> is_gradient(before.size(), false);
        for (int p = 0; p < run.parameters().size(); ++p) {
          const auto begin = is_gradient.begin() + run.layout().places[static_cast<std::size_t>(p)].offset;
          std::fill(begin, begin + run.parameters()[p].elements(), true);
        }
        for (std::size_t i = 0; i < before.size(); ++i)
          ASSERT_TRUE(is_gradient[i] || gradients[in_gradients ? 1 : 0][i] == before[i]) << i;
      }
      EXPECT_EQ(first_different_bit(gradients[0], gradients[1]), -1) << architecture_name(head) << ", " << number;
    }
  }
}

// A layer's last product is not repeated: what it was added to is kept, as the next layer reads it.
TEST(RecomputeModels, ALayersLastProductIsNotRepeated) {
  ParameterSet parameters;
  Graph graph(parameters, counts_of(6, 90, 30), batch_fields());
  (void)record(graph, small_config(LinkTower::kAdd), ModelHead::kContrastive, {});
  const std::string layer = "bridgetower.text_model.encoder.layer.1";
  std::vector<std::string> forward, repeated;
  recompute(graph, std::vector<Recompute>(layers_of(graph).size(), Recompute::kAll));
  for (const Node& node : graph.nodes()) {
    if (node.scope == layer && !node.backward) forward.push_back(node.kind->name);
    if (node.scope == layer && node.again) repeated.push_back(node.kind->name);
  }
  ASSERT_GT(forward.size(), 2u);
  EXPECT_EQ(forward[forward.size() - 2], "linear");
  forward.resize(forward.size() - 2);  // and without the layer norm behind it
  EXPECT_EQ(repeated, forward);
}

// Backward reads the first rows, not the rows that they are taken from: taking them again would hold all.
TEST(RecomputeModels, ACheapOperationIsRepeatedOnlyWhereThatFreesMemory) {
  for (const bool takes_first : {false, true}) {
    ParameterSet parameters;
    Graph graph(parameters, counts_of(6, 90, 30), batch_fields());
    const auto weight = [&](const char* name, std::int64_t out) {
      return graph.parameter({name, out, 64, true, true, {}});
    };
    graph.set_scope("layer");
    const Tensor x = graph.input("x", text_rows(), 64);
    const Tensor h = linear(graph, "h", x, weight("h.w", 64), Tensor{});
    const Tensor next = takes_first ? first_rows(graph, "first", h, {text_rows(), graph.field("text_offsets"), {}})
                                    : activation(graph, "gelu", h, Activation::kGelu);
    const Tensor y = linear(graph, "y", next, weight("y.w", 64), Tensor{});
    graph.set_scope("head");
    cross_entropy_loss(graph, linear(graph, "logits", y, weight("head.w", 7), Tensor{}), graph.field("labels"));
    derive_backward(graph);
    std::vector<std::string> repeated;
    recompute(graph, {Recompute::kCheap});
    for (const Node& node : graph.nodes()) {
      if (node.again) repeated.push_back(node.kind->name);
    }
    EXPECT_EQ(repeated, takes_first ? std::vector<std::string>{} : std::vector<std::string>{"activation"});
  }
}

// Where nothing that is trained lies below, there is no backward part that could read a copy.
TEST(RecomputeModels, AFrozenTowerIsNotComputedAgain) {
  ParameterSet parameters;
  Graph graph(parameters, counts_of(6, 90, 30), batch_fields());
  (void)record(graph, small_config(LinkTower::kAdd), ModelHead::kContrastive, "vision_model");
  recompute(graph, std::vector<Recompute>(layers_of(graph).size(), Recompute::kAll));
  for (const Node& node : graph.nodes())
    EXPECT_FALSE(node.again && node.scope.find("vision_model") != std::string::npos) << node.scope;
}

}  // namespace
}  // namespace bascule::test::test_recompute
