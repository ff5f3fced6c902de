// SPDX-License-Identifier: Apache-2.0
#include "src/models/towers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// A small configuration that every head can run.
Json small() {
  return parse_json(
      R"({"model_type": "bridgetower", "hidden_size": 64, "num_hidden_layers": 2, "contrastive_hidden_size": 16, "logit_scale_init_value": 2.6592,
    "text_config": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32, "vocab_size": 50, "max_position_embeddings": 20},
    "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8}})",
      "small");
}

BridgeTowerConfig read(const std::string& text) {
  const TemporaryFolder folder;
  return read_bridgetower_config(folder.write("config.json", text));
}

BridgeTowerConfig checked(const Json& json, ModelHead head) {
  const BridgeTowerConfig config = read(json_text(json));
  check_bridgetower_config(config, head, "config.json");
  return config;
}

// The one line that a refusal prints; empty if there is none.
std::string refusal(const Json& json, ModelHead head = ModelHead::kImageTextMatching) {
  try {
    checked(json, head);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(error.where().find("config.json"), std::string::npos) << error.what();
    EXPECT_FALSE(error.problem().empty());
    return error.what();
  }
  return "";
}

void expect_refused(const Json& json, ModelHead head, const std::vector<std::string>& words) {
  const std::string line = refusal(json, head);
  for (const std::string& word : words)
    EXPECT_NE(line.find(word), std::string::npos) << "\"" << word << "\" in: " << line;
}

Json with(const char* section, const char* key, const Json& value) {
  Json json = small();
  (*section == '\0' ? json : json[section])[key] = value;
  return json;
}

TEST(BridgeTowerConfig, TheSmallOneIsTakenByEveryHead) {
  for (const ModelHead head :
       {ModelHead::kBase, ModelHead::kContrastive, ModelHead::kImageTextMatching, ModelHead::kMaskedLm}) {
    EXPECT_EQ(refusal(small(), head), "") << architecture_name(head);
  }
}

// BridgeTowerConfig() of Transformers 5.23, printed.
TEST(BridgeTowerConfig, WhatIsLeftOutHasTheReferencesDefaults) {
  for (const char* text : {"{}", R"({"text_config": null, "vision_config": null, "hidden_size": null})",
                           R"({"text_config": {}, "vision_config": {}})"}) {
    const BridgeTowerConfig config = read(text);
    EXPECT_EQ(config.hidden_size, 768);
    EXPECT_EQ(config.num_hidden_layers, 6);
    EXPECT_EQ(config.hidden_act, Activation::kGelu);
    EXPECT_EQ(config.layer_norm_eps, 1e-5f);
    EXPECT_EQ(config.link_tower_type, LinkTower::kAdd);
    EXPECT_TRUE(config.share_cross_modal_transformer_layers);
    EXPECT_FALSE(config.share_link_tower_layers);
    EXPECT_FALSE(config.tie_word_embeddings);
    EXPECT_FALSE(config.init_layernorm_from_vision_encoder);
    EXPECT_EQ(config.initializer_factor, 1.0);
    const BridgeTowerConfig::Text& t = config.text;
    EXPECT_EQ(
        (std::vector<std::int64_t>{t.vocab_size, t.hidden_size, t.num_hidden_layers, t.num_attention_heads,
                                   t.intermediate_size, t.max_position_embeddings, t.type_vocab_size, t.pad_token_id}),
        (std::vector<std::int64_t>{50265, 768, 12, 12, 3072, 514, 1, 1}));
    EXPECT_EQ(t.hidden_act, Activation::kGelu);
    EXPECT_EQ(t.hidden_dropout_prob, 0.1f);
    EXPECT_EQ(t.attention_probs_dropout_prob, 0.1f);
    EXPECT_EQ(t.layer_norm_eps, 1e-5f);
    const BridgeTowerConfig::Vision& v = config.vision;
    EXPECT_EQ(
        (std::vector<std::int64_t>{v.hidden_size, v.num_hidden_layers, v.num_channels, v.patch_size, v.image_size}),
        (std::vector<std::int64_t>{768, 12, 3, 16, 288}));
    EXPECT_TRUE(v.share_layernorm);
    EXPECT_FALSE(v.remove_last_layer);
    EXPECT_EQ(config.split(), 7);
    EXPECT_EQ(v.heads(), 12);
  }
}

TEST(BridgeTowerConfig, TheContrastiveHeadNeedsTheTwoKeysThatHaveNoDefault) {
  for (const char* key : {"contrastive_hidden_size", "logit_scale_init_value"}) {
    Json json = small();
    json.items().erase(key);
    expect_refused(json, ModelHead::kContrastive, {key, "no default"});
    EXPECT_EQ(refusal(json, ModelHead::kMaskedLm), "");
  }
}

TEST(BridgeTowerConfig, WhatTheReferenceCannotBuildIsRefused) {
  expect_refused(with("", "share_link_tower_layers", true), ModelHead::kBase,
                 {"share_link_tower_layers", "cross-modal"});
  Json json = with("vision_config", "share_layernorm", false);
  json["init_layernorm_from_vision_encoder"] = true;
  expect_refused(json, ModelHead::kBase, {"init_layernorm_from_vision_encoder", "share_layernorm"});
  expect_refused(with("", "share_cross_modal_transformer_layers", false), ModelHead::kContrastive,
                 {"contrastive", "share_cross_modal_transformer_layers"});
  expect_refused(with("vision_config", "hidden_size", 128), ModelHead::kContrastive, {"contrastive", "128", "64"});
  expect_refused(with("vision_config", "image_size", {32, 32}), ModelHead::kBase, {"image_size", "list"});
  expect_refused(with("vision_config", "patch_size", {8, 8}), ModelHead::kBase, {"patch_size", "list"});
  expect_refused(with("vision_config", "hidden_size", 63), ModelHead::kBase, {"vision_config.hidden_size", "63"});
  expect_refused(with("vision_config", "hidden_size", 129), ModelHead::kBase, {"129", "2 heads"});
  expect_refused(with("vision_config", "num_hidden_layers", 1), ModelHead::kBase, {"vision tower", "1", "2"});
  expect_refused(with("vision_config", "remove_last_layer", true), ModelHead::kBase, {"vision tower", "1", "2"});
  expect_refused(with("text_config", "hidden_size", 32), ModelHead::kBase,
                 {"text_config.hidden_size = 32", "hidden_size = 64"});
  expect_refused(with("text_config", "num_attention_heads", 5), ModelHead::kBase, {"num_attention_heads = 5", "64"});
  expect_refused(with("", "link_tower_type", "multiply"), ModelHead::kBase, {"multiply", "scaled_add"});
  expect_refused(with("vision_config", "image_size", 7), ModelHead::kBase, {"image_size", "patch_size"});
}

TEST(BridgeTowerConfig, ATextTowerThatIsADecoderIsRefused) {
  for (const std::string key : {"is_decoder", "add_cross_attention"}) {
    expect_refused(with("text_config", key.c_str(), true), ModelHead::kBase, {"text_config." + key + " = true"});
    EXPECT_EQ(refusal(with("text_config", key.c_str(), false)), "");
  }
}

// Python's negative indices let it run, to no sense.
TEST(BridgeTowerConfig, MoreCrossModalLayersThanTheTextTowerFeedsAreRefused) {
  expect_refused(with("", "num_hidden_layers", 4), ModelHead::kBase,
                 {"4 cross-modal layers", "text_config.num_hidden_layers = 2"});
  EXPECT_EQ(checked(with("", "num_hidden_layers", 3), ModelHead::kBase).split(), 0);
}

TEST(BridgeTowerConfig, WhatIsAllowedWithOneCrossModalLayerIsTaken) {
  Json json = with("", "share_link_tower_layers", true);
  json["num_hidden_layers"] = 1;
  EXPECT_EQ(refusal(json), "");
  EXPECT_EQ(refusal(with("", "init_layernorm_from_vision_encoder", true)), "")
      << "without effect where the layer norm is shared";
  EXPECT_EQ(refusal(with("vision_config", "hidden_size", 128)), "");
  EXPECT_EQ(refusal(with("vision_config", "stop_gradient", true)), "");
}

TEST(BridgeTowerConfig, NumbersOutOfRangeAndOfWrongTypeAreRefused) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
                          "max_position_embeddings", "type_vocab_size"}) {
    expect_refused(with("text_config", key, 0), ModelHead::kBase, {key});
    expect_refused(with("text_config", key, -3), ModelHead::kBase, {key});
    expect_refused(with("text_config", key, 4000000000), ModelHead::kBase, {key});
    expect_refused(with("text_config", key, "64"), ModelHead::kBase, {key});
    expect_refused(with("text_config", key, 1.5), ModelHead::kBase, {key});
  }
  expect_refused(with("text_config", "pad_token_id", 50), ModelHead::kBase, {"pad_token_id"});
  expect_refused(with("text_config", "pad_token_id", -1), ModelHead::kBase, {"pad_token_id"});
  expect_refused(with("text_config", "hidden_dropout_prob", 1.0), ModelHead::kBase, {"hidden_dropout_prob"});
  expect_refused(with("text_config", "attention_probs_dropout_prob", -0.1), ModelHead::kBase,
                 {"attention_probs_dropout_prob"});
  expect_refused(with("text_config", "layer_norm_eps", 0.0), ModelHead::kBase, {"layer_norm_eps"});
  expect_refused(with("text_config", "max_position_embeddings", 2), ModelHead::kBase, {"max_position_embeddings"});
  expect_refused(with("text_config", "hidden_act", "gelu2"), ModelHead::kBase, {"gelu2", "quick_gelu"});
  expect_refused(with("", "text_config", 3), ModelHead::kBase, {"config.json"});
}

TEST(BridgeTowerConfig, EveryNameOfAnActivationIsKnown) {
  const std::vector<std::pair<const char*, Activation>> names = {{"gelu", Activation::kGelu},
                                                                 {"gelu_python", Activation::kGelu},
                                                                 {"gelu_new", Activation::kGeluTanh},
                                                                 {"gelu_fast", Activation::kGeluTanh},
                                                                 {"gelu_accurate", Activation::kGeluTanh},
                                                                 {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                                 {"gelu_python_tanh", Activation::kGeluTanh},
                                                                 {"quick_gelu", Activation::kQuickGelu},
                                                                 {"relu", Activation::kRelu},
                                                                 {"silu", Activation::kSilu},
                                                                 {"swish", Activation::kSilu},
                                                                 {"tanh", Activation::kTanh},
                                                                 {"sigmoid", Activation::kSigmoid},
                                                                 {"linear", Activation::kLinear}};
  for (const auto& [name, kind] : names) {
    EXPECT_EQ(checked(with("text_config", "hidden_act", name), ModelHead::kBase).text.hidden_act, kind) << name;
    EXPECT_EQ(checked(with("", "hidden_act", name), ModelHead::kBase).hidden_act, kind) << name;
  }
}

TEST(BridgeTowerConfig, AFileThatIsNoJsonIsRefused) {
  for (const char* text : {"", "{", "[]", "{\"hidden_size\": 64,}", "\xff"}) {
    EXPECT_TRUE(test::fails([&] { read(text); })) << text;
  }
  EXPECT_TRUE(test::fails([&] { read_bridgetower_config("/nonexistent/config.json"); }));
}

}  // namespace
}  // namespace bascule::test
