// SPDX-License-Identifier: Apache-2.0
// Checks the whole model beyond the numbers that `bascule verify` judges: bits and dropout.
#include "src/models/bridgetower.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/models/towers.h"
#include "src/runtime/guard.h"
#include "tests/graph/graph_run.h"
#include "tests/support/error_bound.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {
namespace {

BridgeTowerConfig demo_config() {
  return read_bridgetower_config(reference_dir() + "/emoji-captions/model/config.json");
}

// Two cross-modal layers, one tower layer below them, heads of 6.
BridgeTowerConfig small_config() {
  BridgeTowerConfig config;
  config.hidden_size = config.text.hidden_size = 24;
  config.num_hidden_layers = config.text.num_hidden_layers = config.vision.num_hidden_layers = 2;
  config.text.num_attention_heads = 4;
  config.text.intermediate_size = 40;
  config.text.vocab_size = 50;
  config.text.max_position_embeddings = 40;
  config.text.hidden_dropout_prob = config.text.attention_probs_dropout_prob = 0.3f;
  config.vision.hidden_size = 64;
  config.vision.image_size = 16;
  config.vision.patch_size = 8;
  config.link_tower_type = LinkTower::kScaledAdd;
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

BridgeTowerOutputs record(GraphRun& run, const BridgeTowerConfig& config, ModelHead head, bool dropout) {
  BridgeTowerOptions options;
  options.head = head;
  options.dropout = dropout;
  return record_bridgetower(run.graph(), config, options);
}

// One training step of the demo's model, with dropout, in two micro-batches of different size.
std::vector<float> bits_of_a_step(ModelHead head, Isa isa, int threads) {
  const BridgeTowerConfig config = demo_config();
  GraphRun run(counts_of(6, 90, 30), threads);
  const BridgeTowerOutputs out = record(run, config, head, true);
  run.finish({}, kernels_for(isa));
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

// Products are the library's here, uncapped: the same on every ISA of ours.
TEST(BridgeTower, AnyNumberOfThreadsGivesTheSameBitsOnEveryIsa) {
  for (const ModelHead head : {ModelHead::kContrastive, ModelHead::kImageTextMatching, ModelHead::kMaskedLm}) {
    const std::vector<float> one = bits_of_a_step(head, best_isa(), 1);
    for (const float value : one) ASSERT_TRUE(std::isfinite(value));
    const auto expect_the_same = [&](Isa isa, int threads) {
      EXPECT_EQ(first_different_bit(bits_of_a_step(head, isa, threads), one), -1)
          << isa_name(isa) << ", " << threads << " threads, " << architecture_name(head);
    };
    for (const int threads : {2, 3, 4}) expect_the_same(best_isa(), threads);
    int turn = static_cast<int>(head);
    for (const Isa isa : kAllIsas) {
      if (isa_supported(isa) && isa != best_isa()) expect_the_same(isa, 1 + turn++ % 4);
    }
  }
}

// A parameter's values as a function of the names of its tensors in a checkpoint, with or without the prefix.
std::vector<float> values_by_name(const Parameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
  for (const ParameterPiece& piece : parameter.pieces) {
    const std::string name = piece.name.rfind("bridgetower.", 0) == 0 ? piece.name.substr(12) : piece.name;
    std::uint64_t seed = 1;
    for (const char c : name) seed = seed * 31 + static_cast<unsigned char>(c);
    Seeded random(seed);
    const double scale = piece.shape.size() > 1 ? 1.0 / std::sqrt(static_cast<double>(parameter.cols)) : 0.5;
    random.fill_normal(values.data() + piece.first_element, static_cast<std::size_t>(piece.elements), scale);
  }
  return values;
}

// Dropout is a function of sample, token and place in the model: the head that computes the last layer for first rows
// only drops what the bare model drops, which computes all rows.
TEST(BridgeTower, RowsThatAreNotComputedDoNotChangeWhatIsDropped) {
  const BridgeTowerConfig config = small_config();
  const std::vector<std::int64_t> lengths = {7, 1, 12};
  std::vector<float> pooled[2];
  for (const ModelHead head : {ModelHead::kBase, ModelHead::kImageTextMatching}) {
    GraphRun run(counts_of(4, 40, 0));
    const BridgeTowerOutputs out = record(run, config, head, true);
    run.seal(kernels_for(best_isa()));
    for (int p = 0; p < run.parameters().size(); ++p)
      run.set_values(run.parameters()[p].name, values_by_name(run.parameters()[p]));
    run.replay(batch_for(config, head, lengths).batch());
    pooled[head == ModelHead::kBase ? 0 : 1] = run.rows_of(out.pooler_output, 3);
  }
  EXPECT_LE(relative_l2(pooled[1], pooled[0]), 64.0 * kFloatEpsilon);
  EXPECT_GT(std::fabs(pooled[0][0]), 0.0f);
}

// A mask that two places shared would tie what they drop.
TEST(BridgeTower, EveryPlaceThatDropsHasANumberOfItsOwnAlsoWhereNothingIsDropped) {
  const BridgeTowerConfig config = small_config();
  ParameterSet parameters;
  Graph graph(parameters, counts_of(1, 1, 0), batch_fields());
  for (const bool dropout : {false, true}) {
    BridgeTowerRecorder recorder(graph, config, "", {}, dropout);
    for (std::uint32_t place = 0; place < 3; ++place) EXPECT_EQ(recorder.drop(0.5f).operation, place);
    EXPECT_EQ(recorder.drop(0.5f).probability, dropout ? 0.5f : 0.0f);
  }
}

// As Transformers decides (interpolate_pos_encoding): as many patches are not enough.
TEST(BridgeTower, PositionsAreLeftAloneForTheConfiguredSquareOnly) {
  const BridgeTowerConfig config = small_config();  // 16 pixels, 2 x 2 patches
  for (const auto& [height, width, is_resized] :
       {std::make_tuple(16, 16, false), std::make_tuple(8, 32, true), std::make_tuple(32, 32, true)}) {
    ParameterSet parameters;
    Graph graph(parameters, counts_of(1, 10, 0), batch_fields());
    BridgeTowerOptions options;
    options.head = ModelHead::kBase;
    options.height = height;
    options.width = width;
    record_bridgetower(graph, config, options);
    bool found = false;
    for (const TensorInfo& tensor : graph.tensors())
      found = found || tensor.name.find("embeddings.resized") != std::string::npos;
    EXPECT_EQ(found, is_resized) << height << " x " << width;
  }
}

TEST(BridgeTower, EachStepDropsOthersAndEvaluationNone) {
  const BridgeTowerConfig config = small_config();
  const TestBatch batch = batch_for(config, ModelHead::kImageTextMatching, {7, 1, 12});
  std::vector<float> losses;
  for (const bool dropout : {false, true}) {
    GraphRun run(counts_of(4, 40, 0));
    const BridgeTowerOutputs out = record(run, config, ModelHead::kImageTextMatching, dropout);
    run.finish({});
    for (const std::uint32_t step : {1u, 2u, 1u}) {
      run.replay(batch.batch(), 1.0f, false, step);
      losses.push_back(*run.at(out.loss));
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_NE(losses[3], losses[4]);
  EXPECT_EQ(losses[3], losses[5]);
  EXPECT_NE(losses[0], losses[3]);
}

TEST(BridgeTower, HiddenRowsAndAttentionDropWithTheirOwnProbabilities) {
  std::vector<float> losses;
  for (const auto& [hidden, attention] :
       {std::make_pair(0.0f, 0.0f), std::make_pair(0.0f, 0.5f), std::make_pair(0.5f, 0.0f)}) {
    BridgeTowerConfig config = small_config();
    config.text.hidden_dropout_prob = hidden;
    config.text.attention_probs_dropout_prob = attention;
    GraphRun run(counts_of(4, 40, 0));
    const BridgeTowerOutputs out = record(run, config, ModelHead::kImageTextMatching, true);
    run.finish({});
    run.replay(batch_for(config, ModelHead::kImageTextMatching, {7, 1, 12}).batch());
    losses.push_back(*run.at(out.loss));
  }
  EXPECT_NE(losses[1], losses[0]);
  EXPECT_NE(losses[2], losses[0]);
  EXPECT_NE(losses[2], losses[1]);
}

// Backward must drop what forward dropped, at every place. Attention's mask cannot be read from outside, so this
// compares with a difference quotient along each parameter's gradient, of a loss that changes by 1e-3: its rounding is
// 1e-4 of that, its curvature a little more. A mask of other elements at one place changes the gradients below it by
// tens of percent.
TEST(BridgeTower, BackwardDropsWhatForwardDropped) {
  const BridgeTowerConfig config = small_config();
  for (const ModelHead head : {ModelHead::kImageTextMatching, ModelHead::kMaskedLm}) {
    const TestBatch batch = batch_for(config, head, {7, 1, 12, 9});
    GraphRun run(counts_of(4, 40, 20));
    const BridgeTowerOutputs out = record(run, config, head, true);
    run.finish({});
    run.replay(batch.batch());
    std::map<std::string, std::vector<float>> gradients;
    double largest = 0.0;
    const auto norm_of = [](const std::vector<float>& x) {
      double squares = 0.0;
      for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
      return std::sqrt(squares);
    };
    for (int p = 0; p < run.parameters().size(); ++p) {
      gradients[run.parameters()[p].name] = run.gradient(run.parameters()[p].name);
      largest = std::max(largest, norm_of(gradients[run.parameters()[p].name]));
    }
    int compared = 0;
    for (const auto& [name, gradient] : gradients) {
      const double norm = norm_of(gradient);
      if (norm < 0.05 * largest) continue;
      const std::vector<float> start = run.values(name);
      double losses[2];
      for (const int side : {0, 1}) {
        const double step = (side == 0 ? -0.5e-3 : 0.5e-3) / (norm * norm);
        std::vector<float> moved = start;
        for (std::size_t i = 0; i < moved.size(); ++i)
          moved[i] += static_cast<float>(step * static_cast<double>(gradient[i]));
        run.set_values(name, moved);
        run.replay(batch.batch());
        losses[side] = static_cast<double>(*run.at(out.loss));
      }
      run.set_values(name, start);
      EXPECT_NEAR((losses[1] - losses[0]) / 1e-3, 1.0, 0.02) << name;
      ++compared;
    }
    EXPECT_GT(compared, 20);
  }
}

TEST(BridgeTower, AStepAllocatesNothingOfOurs) {
  const BridgeTowerConfig config = demo_config();
  GraphRun run(counts_of(6, 90, 30), 2);
  record(run, config, ModelHead::kContrastive, true);
  run.finish({});
  const TestBatch batch = batch_for(config, ModelHead::kContrastive, {17, 3, 30});
  const Batch view = batch.batch();
  seal_memory();  // the first allocation of ours ends the test
  run.replay(view);
  run.replay(view);
  open_memory();
}

// Tower layers below the first cross-modal one may be none, and one cross-modal layer has no link tower.
TEST(BridgeTower, SplitOfNoneAndOneCrossModalLayerRun) {
  for (const std::int64_t cross : {1, 2, 3}) {
    BridgeTowerConfig config = small_config();
    config.num_hidden_layers = cross;
    GraphRun run(counts_of(2, 20, 0));
    const BridgeTowerOutputs out = record(run, config, ModelHead::kImageTextMatching, false);
    run.finish({});
    run.replay(batch_for(config, ModelHead::kImageTextMatching, {4, 2}).batch());
    EXPECT_TRUE(std::isfinite(*run.at(out.loss)));
    for (const TensorInfo& info : run.graph().tensors())
      EXPECT_EQ(info.name.find("link_tower." + std::to_string(cross - 1) + "."), std::string::npos);
  }
}

}  // namespace
}  // namespace bascule::test
