// SPDX-License-Identifier: Apache-2.0
// T5's config.json, and what is recorded for it. Its numbers: tests/data/goldens-families.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "src/models/families.h"
#include "src/models/t5_layers.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_t5 {
namespace {

// The config.json of a small T5, with these members after its own.
std::string text_with(const std::string& members) {
  const bool has_start = members.find("decoder_start_token_id") != std::string::npos;
  return R"({"model_type": "t5", "d_model": 16, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 3, "vocab_size": 30)" +
         std::string(has_start ? "" : R"(, "decoder_start_token_id": 0)") + (members.empty() ? "" : ", " + members) +
         "}";
}

T5Config config_with(const std::string& members) {
  const TemporaryFolder folder;
  return read_t5_config(folder.write("config.json", text_with(members)));
}

std::string refusal_of_text(const std::string& text) {
  const TemporaryFolder folder;
  return test::error_of([&] { read_t5_config(folder.write("config.json", text)); });
}

TEST(T5Config, HasTransformersDefaults) {
  const T5Config config = config_with("");
  EXPECT_EQ(config.num_decoder_layers, 2);
  EXPECT_EQ(config.relative_attention_num_buckets, 32);
  EXPECT_EQ(config.relative_attention_max_distance, 128);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_EQ(config.activation, Activation::kRelu);
  EXPECT_FALSE(config.is_gated);
  EXPECT_EQ(config.dropout_rate, 0.1f);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-6f);
  EXPECT_EQ(config.inner_width(), 15);
  EXPECT_EQ(config_with(R"("num_decoder_layers": 5)").num_decoder_layers, 5);
  EXPECT_EQ(config_with(R"("num_decoder_layers": null)").num_decoder_layers, 2);
}

TEST(T5Config, ReadsTheFeedForwardAsTransformersDoes) {
  for (const auto& [name, activation, gated] :
       {std::tuple<const char*, Activation, bool>{"relu", Activation::kRelu, false},
        {"gelu", Activation::kGelu, false},
        {"gelu_new", Activation::kGeluTanh, false},
        {"gated-gelu", Activation::kGeluTanh, true},
        {"gated-gelu_pytorch_tanh", Activation::kGeluTanh, true},
        {"gated-silu", Activation::kSilu, true},
        {"gated-relu", Activation::kRelu, true}}) {
    const T5Config config = config_with(R"("feed_forward_proj": ")" + std::string(name) + "\"");
    EXPECT_EQ(config.activation, activation) << name;
    EXPECT_EQ(config.is_gated, gated) << name;
  }
}

// As save_pretrained() writes them beside it; from_pretrained() lets them decide.
TEST(T5Config, TheActivationAndTheGateOfTheirOwnKeysDecide) {
  const T5Config named = config_with(R"("feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu")");
  EXPECT_EQ(named.activation, Activation::kGelu);
  EXPECT_TRUE(named.is_gated);
  const T5Config gated = config_with(R"("dense_act_fn": "silu", "is_gated_act": true)");
  EXPECT_EQ(gated.activation, Activation::kSilu);
  EXPECT_TRUE(gated.is_gated);
  EXPECT_FALSE(config_with(R"("feed_forward_proj": "gated-gelu", "is_gated_act": false)").is_gated);
  EXPECT_EQ(config_with(R"("feed_forward_proj": "mish", "dense_act_fn": "relu")").activation, Activation::kRelu);
}

// Of the two keys the newer one decides.
TEST(T5Config, TheHeadIsScaledAsTheKeysSay) {
  EXPECT_TRUE(config_with("").scales_outputs);
  EXPECT_FALSE(config_with(R"("tie_word_embeddings": false)").scales_outputs);
  EXPECT_FALSE(config_with(R"("scale_decoder_outputs": false)").scales_outputs);
  EXPECT_TRUE(config_with(R"("tie_word_embeddings": false, "scale_decoder_outputs": true)").scales_outputs);
}

TEST(T5Config, RefusesWhatItCannotBeWithTheKey) {
  for (const auto& [members, words] :
       {std::pair<const char*, const char*>{R"("feed_forward_proj": "gated-mish")",
                                            "feed_forward_proj = \"gated-mish\""},
        {R"("dense_act_fn": "mish")", "dense_act_fn = \"mish\""},
        {R"("feed_forward_proj": "half-gelu")", "feed_forward_proj = \"half-gelu\""},
        {R"("pad_token_id": 30)", "pad_token_id = 30"},
        {R"("decoder_start_token_id": 30)", "decoder_start_token_id = 30"},
        {R"("decoder_start_token_id": -1)", "decoder_start_token_id = -1"},
        {R"("relative_attention_num_buckets": 3)", "relative_attention_num_buckets = 3"},
        {R"("relative_attention_num_buckets": 513, "relative_attention_max_distance": 2000)", "4 to 512"},
        {R"("relative_attention_max_distance": 16)", "relative_attention_max_distance = 16"},
        {R"("dropout_rate": 1.0)", "dropout_rate"},
        {R"("layer_norm_epsilon": 0)", "layer_norm_epsilon"},
        {R"("initializer_factor": -1)", "initializer_factor"},
        {R"("num_decoder_layers": 0)", "num_decoder_layers = 0"},
        {R"("architectures": ["T5EncoderModel"])", "T5EncoderModel"},
        {R"("architectures": ["T5ForTokenClassification"])", "T5ForTokenClassification"}}) {
    const std::string refusal = refusal_of_text(text_with(members));
    EXPECT_NE(refusal.find(words), std::string::npos) << members << ": " << refusal;
  }
}

TEST(T5Config, NeedsAStartTokenOfTheDecoder) {
  std::string text = text_with("");
  text.replace(text.find("decoder_start"), 7, "another");
  EXPECT_NE(refusal_of_text(text).find("has no decoder_start_token_id"), std::string::npos) << refusal_of_text(text);
}

TEST(T5Config, ItsRelativesAreRefusedByName) {
  for (const char* const type : {"mt5", "umt5", "longt5"}) {
    const TemporaryFolder folder;
    std::string text = text_with("");
    text.replace(text.find("\"t5\""), 4, "\"" + std::string(type) + "\"");
    EXPECT_TRUE(test::fails(
        [&] {
          open_model({folder.write("config.json", text), {}}, "conditional_generation");
        },
        "model_type = \"" + std::string(type) + "\""))
        << type;
  }
}

// lm_head.weight in the weights' file.
enum class Head { kAbsent, kEqual, kOwn };

std::unique_ptr<Model> open_with(const std::string& members, Head head) {
  const TemporaryFolder folder;
  ModelSource source;
  source.config_path = folder.write("config.json", text_with(members));
  source.has_weights = [=](const std::string& tensor) { return tensor == "lm_head.weight" && head != Head::kAbsent; };
  source.are_equal = [=](const std::string&, const std::string&, const FileNames&) { return head == Head::kEqual; };
  return open_model(source, "conditional_generation");
}

struct Recorded {
  ParameterSet parameters;
  std::vector<std::string> names;
  bool scales = false;

  const Parameter& parameter_of(const std::string& piece) const {
    for (int p = 0; p < parameters.size(); ++p) {
      for (const ParameterPiece& own : parameters[p].pieces) {
        if (own.name == piece) return parameters[p];
      }
    }
    ADD_FAILURE() << piece;
    return parameters[0];
  }
  const ParameterPiece& piece(const std::string& name) const {
    const std::vector<ParameterPiece>& pieces = parameter_of(name).pieces;
    return *std::find_if(pieces.begin(), pieces.end(), [&](const ParameterPiece& one) { return one.name == name; });
  }
};

Recorded record(const Model& model, const std::vector<std::string>& frozen = {}) {
  Recorded recorded;
  BatchCounts bounds;
  for (const int stream : {kSamples, kFirstModelStream, kFirstModelStream + 1, kFirstModelStream + 2})
    bounds[stream] = 6;
  Graph graph(recorded.parameters, bounds, model.fields({}));
  RecordOptions options;
  options.frozen = frozen;
  model.record(graph, Use::kTrain, options);
  for (int p = 0; p < recorded.parameters.size(); ++p) {
    for (const ParameterPiece& piece : recorded.parameters[p].pieces) recorded.names.push_back(piece.name);
  }
  std::sort(recorded.names.begin(), recorded.names.end());
  recorded.scales = static_cast<bool>(graph.find("lm_head/scaled"));
  return recorded;
}

bool has(const Recorded& recorded, const std::string& name) {
  return std::find(recorded.names.begin(), recorded.names.end(), name) != recorded.names.end();
}

// The table of heads: config.json's two keys, the weights' file, and what comes of them; what is saved reads the same.
TEST(T5, TheHeadIsWhatTheKeysAndTheWeightsSay) {
  struct Row {
    std::optional<bool> tie, scale;
    Head file;
    bool own, scales;
  };
  std::vector<Row> rows;
  for (const std::optional<bool> tie : {std::optional<bool>(), std::optional<bool>(true), std::optional<bool>(false)}) {
    for (const std::optional<bool> scale :
         {std::optional<bool>(), std::optional<bool>(true), std::optional<bool>(false)}) {
      for (const Head file : {Head::kAbsent, Head::kEqual, Head::kOwn})
        rows.push_back({tie, scale, file, file == Head::kOwn, scale.value_or(tie.value_or(true))});
    }
  }
  for (const Row& row : rows) {
    std::string members;
    const auto add = [&](const char* key, std::optional<bool> value) {
      if (!value) return;
      members += (members.empty() ? "\"" : ", \"") + std::string(key) + "\": " + (*value ? "true" : "false");
    };
    add("tie_word_embeddings", row.tie);
    add("scale_decoder_outputs", row.scale);
    SCOPED_TRACE(members + ", file " + std::to_string(static_cast<int>(row.file)));
    const std::unique_ptr<Model> model = open_with(members, row.file);
    const Recorded recorded = record(*model);
    EXPECT_EQ(has(recorded, "lm_head.weight"), row.own);
    EXPECT_EQ(recorded.scales, row.scales);
    EXPECT_EQ(model->is_ignored("lm_head.weight"), !row.own);

    Json config = parse_json(text_with(members), "config.json");
    model->complete_config(&config);
    const TemporaryFolder saved;
    const std::string path = saved.write("config.json", json_text(config));
    EXPECT_EQ(read_t5_config(path).scales_outputs, row.scales);
    EXPECT_EQ(config["tie_word_embeddings"], !row.own && row.scales);
    EXPECT_EQ(config.contains("scale_decoder_outputs"), row.own && row.scales);
    EXPECT_EQ(model->notes().size(), row.own && row.tie.value_or(true) ? 1u : 0u);
  }
}

TEST(T5, NamesAreThoseOfTheFile) {
  const Recorded plain = record(*open_with(R"("num_decoder_layers": 1)", Head::kAbsent));
  std::vector<std::string> expected = {"shared.weight", "encoder.final_layer_norm.weight",
                                       "decoder.final_layer_norm.weight"};
  const auto add_block = [&](const std::string& block, bool decodes) {
    const std::string feed_forward = block + (decodes ? ".layer.2" : ".layer.1");
    for (const char* const part : {"q", "k", "v", "o"}) {
      expected.push_back(block + ".layer.0.SelfAttention." + part + ".weight");
      if (decodes) expected.push_back(block + ".layer.1.EncDecAttention." + part + ".weight");
    }
    expected.push_back(feed_forward + ".DenseReluDense.wi.weight");
    expected.push_back(feed_forward + ".DenseReluDense.wo.weight");
    for (const char* const layer : {".layer.0", ".layer.1", ".layer.2"}) {
      if (decodes || layer != std::string(".layer.2")) expected.push_back(block + layer + ".layer_norm.weight");
    }
  };
  for (const char* const block : {"encoder.block.0", "encoder.block.1"}) add_block(block, false);
  add_block("decoder.block.0", true);
  for (const char* const stack : {"encoder", "decoder"})
    expected.push_back(std::string(stack) + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(plain.names, expected);

  const Recorded gated = record(*open_with(R"("feed_forward_proj": "gated-gelu")", Head::kAbsent));
  EXPECT_TRUE(has(gated, "encoder.block.1.layer.1.DenseReluDense.wi_0.weight"));
  EXPECT_TRUE(has(gated, "decoder.block.1.layer.2.DenseReluDense.wi_1.weight"));
  EXPECT_FALSE(has(gated, "encoder.block.0.layer.1.DenseReluDense.wi.weight"));
}

// Trainer's rule leaves out norms, and what has "bias" in its name.
TEST(T5, NormsAndTheTablesOfDistancesAreNotDecayed) {
  const Recorded recorded = record(*open_with("", Head::kOwn));
  for (const std::string& name : recorded.names) {
    const bool is_left_out = name.find("norm") != std::string::npos || name.find("bias") != std::string::npos;
    EXPECT_EQ(recorded.parameter_of(name).decayed, !is_left_out) << name;
  }
}

TEST(T5, FreshWeightsFollowTransformersLaws) {
  const Recorded recorded =
      record(*open_with(R"("initializer_factor": 2.0, "feed_forward_proj": "gated-silu")", Head::kOwn));
  constexpr double kWidth = 16, kKeySize = 5, kInner = 15, kFeedForward = 20;
  const std::string block = "encoder.block.1.layer.0.SelfAttention.", wide = "decoder.block.0.layer.2.DenseReluDense.";
  for (const auto& [name, deviation] :
       {std::pair<std::string, double>{"shared.weight", 2.0},
        {"lm_head.weight", 2.0},
        {block + "q.weight", 2.0 / std::sqrt(kWidth * kKeySize)},
        {block + "k.weight", 2.0 / std::sqrt(kWidth)},
        {block + "v.weight", 2.0 / std::sqrt(kWidth)},
        {block + "o.weight", 2.0 / std::sqrt(kInner)},
        {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 2.0 / std::sqrt(kWidth)},
        {wide + "wi_0.weight", 2.0 / std::sqrt(kWidth)},
        {wide + "wi_1.weight", 2.0 / std::sqrt(kWidth)},
        {wide + "wo.weight", 2.0 / std::sqrt(kFeedForward)}}) {
    EXPECT_EQ(recorded.piece(name).initial.standard_deviation, static_cast<float>(deviation)) << name;
  }
  EXPECT_EQ(recorded.piece("encoder.block.0.layer.0.layer_norm.weight").initial.constant, 2.0f);
}

TEST(T5, PartsAreFrozenByTheirNames) {
  const Recorded recorded = record(*open_with("", Head::kAbsent), {"encoder"});
  for (const std::string& name : recorded.names)
    EXPECT_EQ(recorded.parameter_of(name).trained, name.rfind("encoder.", 0) != 0) << name;
  EXPECT_FALSE(record(*open_with("", Head::kAbsent), {"shared"}).parameter_of("shared.weight").trained);
}

TEST(T5, IgnoresWhatOlderVersionsWrote) {
  const std::unique_ptr<Model> model = open_with("", Head::kAbsent);
  for (const char* const name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                                 "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}) {
    EXPECT_TRUE(model->is_ignored(name)) << name;
  }
  EXPECT_FALSE(model->is_ignored("shared.weight"));
  EXPECT_FALSE(model->is_ignored("classification_head.dense.weight"));
}

}  // namespace
}  // namespace bascule::test::test_t5
