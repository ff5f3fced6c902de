// SPDX-License-Identifier: Apache-2.0
// The parameters that a recording asks for, against published counts and the reference's own lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/checkpoint/hf_folder.h"
#include "src/graph/backward.h"
#include "src/json/json.h"
#include "src/models/bridgetower.h"
#include "src/models/families.h"
#include "tests/models/published_configs.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_bridgetower_parameters {
namespace {

struct Recorded {
  ParameterSet parameters;
  std::unique_ptr<Graph> graph;
};

std::unique_ptr<Recorded> record(const BridgeTowerConfig& config, const BridgeTowerOptions& options) {
  auto recorded = std::make_unique<Recorded>();
  const std::int64_t side = config.vision.image_size, height = options.height > 0 ? options.height : side,
                     width = options.width > 0 ? options.width : side;
  recorded->graph = std::make_unique<Graph>(recorded->parameters, bridgetower_counts(2, 10, 4),
                                            bridgetower_fields(config, options.head, height, width, options.dropout));
  const BridgeTowerOutputs out = record_bridgetower(*recorded->graph, config, options);
  Graph& graph = *recorded->graph;
  if (!out.loss) {
    std::vector<std::pair<Tensor, Tensor>> pairs;
    for (const Tensor output : {out.text_features, out.image_features, out.pooler_output})
      pairs.emplace_back(output, graph.input("c", graph[output].rows, graph[output].cols));
    cotangent_loss(graph, pairs);
  }
  derive_backward(graph);
  return recorded;
}

// All tensors of the class: those of the recording, and those that it does not read.
std::map<std::string, ParameterPiece> all_tensors(const Recorded& recorded, const BridgeTowerConfig& config,
                                                  ModelHead head) {
  std::map<std::string, ParameterPiece> tensors;
  for (int p = 0; p < recorded.parameters.size(); ++p) {
    for (const ParameterPiece& piece : recorded.parameters[p].pieces)
      EXPECT_TRUE(tensors.emplace(piece.name, piece).second) << piece.name;
  }
  for (const ParameterPiece& piece : unused_tensors(config, head))
    EXPECT_TRUE(tensors.emplace(piece.name, piece).second) << piece.name;
  return tensors;
}

std::int64_t count_of(const BridgeTowerConfig& config, ModelHead head) {
  BridgeTowerOptions options;
  options.head = head;
  std::int64_t count = 0;
  for (const auto& entry : all_tensors(*record(config, options), config, head)) count += entry.second.elements;
  return count;
}

TEST(BridgeTowerParameters, CountsAreThePublishedOnes) {
  EXPECT_EQ(count_of(base_config(), ModelHead::kBase), 326347008);
  EXPECT_EQ(count_of(base_config(), ModelHead::kContrastive), 327921409);
  EXPECT_EQ(count_of(base_config(), ModelHead::kImageTextMatching), 326350082);
  EXPECT_EQ(count_of(base_config(), ModelHead::kMaskedLm), 365592921);
  EXPECT_EQ(count_of(large_config(), ModelHead::kBase), 864514048);
  EXPECT_EQ(count_of(large_config(), ModelHead::kContrastive), 866612737);
  EXPECT_EQ(count_of(large_config(), ModelHead::kImageTextMatching), 864518146);
  EXPECT_EQ(count_of(large_config(), ModelHead::kMaskedLm), 917087321);
}

TEST(BridgeTowerParameters, TheContrastiveClassHasAsManyTensorsAsTheReferences) {
  BridgeTowerOptions options;
  EXPECT_EQ(all_tensors(*record(base_config(), options), base_config(), ModelHead::kContrastive).size(), 702u);
  EXPECT_EQ(all_tensors(*record(large_config(), options), large_config(), ModelHead::kContrastive).size(), 1038u);
}

std::set<std::string> names_in(const Json& json, const char* key) {
  const std::vector<std::string> names = get_strings(json, key, "case.json");
  return {names.begin(), names.end()};
}

ModelHead head_named(const std::string& name) {
  return name == "contrastive" ? ModelHead::kContrastive
         : name == "masked_lm" ? ModelHead::kMaskedLm
         : name == "base"      ? ModelHead::kBase
                               : ModelHead::kImageTextMatching;
}

class GoldenParameters : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = reference_dir() + "/goldens/" + GetParam();
    if (reference_file(std::string("goldens/") + GetParam() + "/case.json").empty())
      GTEST_SKIP() << "only in the full reference set";
    case_ = read_json_file(folder_ + "/case.json");
    config_ = read_bridgetower_config(folder_ + "/config.json");
    options_.head = head_named(get_string(case_, "head", folder_));
    options_.tie_word_embeddings = config_.tie_word_embeddings;
    const std::set<std::string> frozen = names_in(case_, "freeze");
    options_.frozen.assign(frozen.begin(), frozen.end());
    recorded_ = record(config_, options_);
  }

  // Names of the checkpoint's tensors whose parameter is so.
  template <typename Predicate>
  std::set<std::string> names_where(Predicate predicate) const {
    std::set<std::string> names;
    for (int p = 0; p < recorded_->parameters.size(); ++p) {
      for (const ParameterPiece& piece : recorded_->parameters[p].pieces) {
        if (predicate(p)) names.insert(piece.name);
      }
    }
    return names;
  }

  std::string folder_;
  Json case_;
  BridgeTowerConfig config_;
  BridgeTowerOptions options_;
  std::unique_ptr<Recorded> recorded_;
};

TEST_P(GoldenParameters, AreTheFilesTensorsByNameAndShape) {
  const TensorSource source = open_hf_weights(folder_);
  std::map<std::string, ParameterPiece> tensors = all_tensors(*recorded_, config_, options_.head);
  for (const StoredTensor& stored : source.tensors()) {
    const auto found = tensors.find(stored.name);
    ASSERT_NE(found, tensors.end()) << stored.name;
    EXPECT_EQ(found->second.shape, stored.shape) << stored.name;
    tensors.erase(found);
  }
  EXPECT_TRUE(tensors.empty()) << tensors.begin()->first;
}

// Every parameter has a gradient but those that the reference lists as frozen or unused.
TEST_P(GoldenParameters, HaveGradientsWhereTheReferencesDo) {
  const std::vector<int> order = gradient_order(*recorded_->graph);
  const std::set<int> written(order.begin(), order.end());
  EXPECT_EQ(written.size(), order.size());
  const std::set<std::string> with_gradient = names_where([&](int p) { return written.count(p) > 0; });
  const std::set<std::string> unused = names_in(case_, "unused_parameters"),
                              frozen = names_in(case_, "frozen_parameters");
  for (const auto& [name, piece] : all_tensors(*recorded_, config_, options_.head)) {
    const bool expected = unused.count(name) == 0 && frozen.count(name) == 0;
    EXPECT_EQ(with_gradient.count(name) > 0, expected) << name;
  }
  EXPECT_EQ(names_where([&](int p) { return recorded_->parameters[p].trained; }), with_gradient);
}

// transformers.Trainer: everything but biases and LayerNorm.
TEST_P(GoldenParameters, DecayAsTrainerDecides) {
  const std::set<std::string> decayed = names_in(case_, "decay_parameters");
  for (const std::string& name : names_where([](int) { return true; })) {
    const std::set<std::string> ours = names_where([&](int p) { return recorded_->parameters[p].decayed; });
    EXPECT_EQ(ours.count(name), decayed.count(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenParameters,
                         ::testing::Values("base_model", "base_other_image_size", "itc_add", "itm_frozen",
                                           "itm_scaled_add", "mlm_interpolate", "mlm_tied", "itc_medium_bf16"),
                         [](const ::testing::TestParamInfo<const char*>& chosen) { return std::string(chosen.param); });

constexpr char kDecoder[] = "mlm_score.decoder.weight";
constexpr char kWordTable[] = "bridgetower.text_model.embeddings.word_embeddings.weight";

// The decoder in the weights' file.
enum class Decoder { kAbsent, kEqual, kOwn };

std::unique_ptr<Model> open_masked_lm(bool says_tied, Decoder decoder, const TemporaryFolder& folder) {
  ModelSource source;
  source.config_path = folder.write(
      "config.json",
      R"({"model_type": "bridgetower", "hidden_size": 64, "num_hidden_layers": 1, "tie_word_embeddings": )" +
          std::string(says_tied ? "true" : "false") +
          R"(, "text_config": {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 50},
              "vision_config": {"hidden_size": 64, "num_hidden_layers": 1, "image_size": 16, "patch_size": 8}})");
  source.has_weights = [=](const std::string& tensor) { return tensor == kDecoder && decoder != Decoder::kAbsent; };
  source.are_equal = [=](const std::string& a, const std::string& b, const FileNames&) {
    return a == kDecoder && b == kWordTable && decoder == Decoder::kEqual;
  };
  return open_model(source, "masked_lm");
}

TEST(BridgeTowerParameters, ATiedDecoderIsTheWordTableUnlessTheWeightsHoldAnotherOne) {
  for (const bool says_tied : {true, false}) {
    for (const Decoder decoder : {Decoder::kAbsent, Decoder::kEqual, Decoder::kOwn}) {
      SCOPED_TRACE(std::to_string(says_tied) + ", file " + std::to_string(static_cast<int>(decoder)));
      const TemporaryFolder folder;
      const std::unique_ptr<Model> model = open_masked_lm(says_tied, decoder, folder);
      ParameterSet parameters;
      Graph graph(parameters, bridgetower_counts(2, 10, 4), model->fields({}));
      model->record(graph, Use::kTrain, {});
      std::set<std::string> names;
      for (int p = 0; p < parameters.size(); ++p) {
        for (const ParameterPiece& piece : parameters[p].pieces) names.insert(piece.name);
      }
      EXPECT_EQ(names.count(kWordTable), 1u);
      EXPECT_EQ(names.count(kDecoder), says_tied && decoder != Decoder::kOwn ? 0u : 1u);
    }
  }
}

// Transformers 5 goes by the key at the top, Transformers 4 by that of the texts, whose default is true.
TEST(BridgeTowerParameters, ConfigJsonSaysWhetherTheDecoderIsTied) {
  for (const bool says_tied : {true, false}) {
    for (const Decoder decoder : {Decoder::kAbsent, Decoder::kEqual, Decoder::kOwn}) {
      SCOPED_TRACE(std::to_string(says_tied) + ", file " + std::to_string(static_cast<int>(decoder)));
      const TemporaryFolder folder;
      const std::unique_ptr<Model> model = open_masked_lm(says_tied, decoder, folder);
      Json config = read_json_file(folder.path() + "/config.json");
      model->complete_config(&config);
      const bool is_tied = says_tied && decoder != Decoder::kOwn;
      EXPECT_EQ(config["tie_word_embeddings"], is_tied);
      EXPECT_EQ(config["text_config"]["tie_word_embeddings"], is_tied);
      EXPECT_EQ(config["text_config"]["vocab_size"], 50);
      EXPECT_EQ(model->notes().size(), says_tied && !is_tied ? 1u : 0u);
    }
  }
}

TEST(BridgeTowerParameters, AHeadWithoutADecoderLeavesConfigJsonAsItIs) {
  const TemporaryFolder folder;
  open_masked_lm(true, Decoder::kOwn, folder);
  ModelSource source;
  source.config_path = folder.path() + "/config.json";
  source.has_weights = [](const std::string&) { return true; };
  const std::unique_ptr<Model> model = open_model(source, "image_text_matching");
  Json config = read_json_file(source.config_path);
  const Json before = config;
  model->complete_config(&config);
  EXPECT_EQ(config, before);
  EXPECT_TRUE(model->notes().empty());
}

// tests/data/goldens/README.md, "Fresh weights".
TEST(BridgeTowerParameters, FreshValuesFollowTheReferencesLaws) {
  BridgeTowerConfig config = large_config();
  config.link_tower_type = LinkTower::kInterpolate;
  BridgeTowerOptions options;
  const auto tensors = all_tensors(*record(config, options), config, ModelHead::kContrastive);
  const double w = 1024.0, n = 24.0;
  const auto expect_normal = [&](const std::string& name, double deviation) {
    const InitialValue initial = tensors.at(name).initial;
    EXPECT_EQ(initial.constant, 0.0f) << name;
    EXPECT_NEAR(static_cast<double>(initial.standard_deviation), deviation, 1e-6 * deviation) << name;
  };
  const auto expect_constant = [&](const std::string& name, float constant) {
    EXPECT_EQ(tensors.at(name).initial.standard_deviation, 0.0f) << name;
    EXPECT_EQ(tensors.at(name).initial.constant, constant) << name;
  };
  const std::string visual = "bridgetower.vision_model.visual.", block = visual + "transformer.resblocks.3.",
                    cross = "bridgetower.cross_modal_";
  expect_normal("bridgetower.text_model.embeddings.word_embeddings.weight", 0.05);
  expect_normal("bridgetower.text_model.encoder.layer.2.attention.self.key.weight", 0.05);
  expect_normal("bridgetower.text_model.pooler.dense.weight", 0.05);
  expect_normal("bridgetower.token_type_embeddings.weight", 0.05);
  expect_normal(cross + "image_layers.1.crossattention.output.dense.weight", 0.05);
  expect_normal(cross + "text_transform.weight", 0.05);
  expect_normal("itc_cross_modal_head.fc.weight", 0.05);
  expect_normal(visual + "embeddings.patch_embedding.weight", 0.05);
  expect_normal(visual + "embeddings.class_embedding", std::pow(w, -0.5));
  expect_normal(visual + "embeddings.position_embedding.weight", std::pow(w, -0.5));
  expect_normal(block + "attn.in_proj_weight", std::pow(w, -0.5));
  expect_normal(block + "attn.out_proj.weight", std::pow(w, -0.5) * std::pow(2.0 * n, -0.5));
  expect_normal(block + "mlp.c_proj.weight", std::pow(w, -0.5) * std::pow(2.0 * n, -0.5));
  expect_normal(block + "mlp.c_fc.weight", std::pow(2.0 * w, -0.5));
  expect_constant(block + "attn.in_proj_bias", 0.0f);
  expect_constant(block + "ln_1.weight", 1.0f);
  expect_constant(visual + "ln_pre.weight", 1.0f);
  expect_constant("bridgetower.text_model.embeddings.LayerNorm.weight", 1.0f);
  expect_constant(cross + "text_layernorm.weight", 1.0f);
  expect_constant(block + "ln_1.bias", 0.0f);
  expect_constant(cross + "text_link_tower.0.beta", 0.5f);
  expect_constant("logit_scale", 2.6592f);
  config.link_tower_type = LinkTower::kScaledAdd;
  EXPECT_EQ(all_tensors(*record(config, options), config, ModelHead::kContrastive)
                .at(cross + "image_link_tower.4.scaled_factor")
                .initial.constant,
            1.0f);
}

}  // namespace
}  // namespace bascule::test::test_bridgetower_parameters
