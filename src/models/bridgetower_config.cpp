// SPDX-License-Identifier: Apache-2.0
#include "src/models/bridgetower_config.h"

#include <map>
#include <utility>

#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what, const std::string& what_to_do = "") {
  throw Error(ErrorKind::kData, path, what, what_to_do);
}

// A positive integer, within a bound that keeps every product of extents far from overflow.
std::int64_t extent(const Json& object, const char* key, const std::string& path, std::int64_t fallback) {
  const Json* member = find_member(object, key, path);
  if (member != nullptr && member->is_array())
    refuse(path, std::string(key) + ": a list of sizes is not supported",
           "Transformers fails on it too; give one number");
  const std::int64_t value = get_int(object, key, path, fallback);
  if (value < 1 || value > (1 << 24))
    refuse(path, std::string(key) + " = " + std::to_string(value) + " is out of range", "1 to 16777216 is allowed");
  return value;
}

float probability(const Json& object, const char* key, const std::string& path) {
  const double value = get_number(object, key, path, 0.1);
  if (!(value >= 0.0 && value < 1.0))
    refuse(path, std::string(key) + " = " + std::to_string(value) + " must be at least 0 and less than 1");
  return static_cast<float>(value);
}

float epsilon(const Json& object, const std::string& path) {
  const double value = get_number(object, "layer_norm_eps", path, 1e-5);
  if (!(value > 0.0 && value < 1.0)) refuse(path, "layer_norm_eps = " + std::to_string(value) + " is out of range");
  return static_cast<float>(value);
}

Activation activation_named(const Json& object, const std::string& path) {
  static const std::map<std::string, Activation> kNames = {{"gelu", Activation::kGelu},
                                                           {"gelu_python", Activation::kGelu},
                                                           {"gelu_new", Activation::kGeluTanh},
                                                           {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                           {"gelu_fast", Activation::kGeluTanh},
                                                           {"gelu_accurate", Activation::kGeluTanh},
                                                           {"gelu_python_tanh", Activation::kGeluTanh},
                                                           {"quick_gelu", Activation::kQuickGelu},
                                                           {"relu", Activation::kRelu},
                                                           {"silu", Activation::kSilu},
                                                           {"swish", Activation::kSilu},
                                                           {"tanh", Activation::kTanh},
                                                           {"sigmoid", Activation::kSigmoid},
                                                           {"linear", Activation::kLinear}};
  const std::string name = get_string(object, "hidden_act", path, "gelu");
  const auto found = kNames.find(name);
  if (found != kNames.end()) return found->second;
  std::string known;
  for (const auto& entry : kNames) known += (known.empty() ? "" : ", ") + entry.first;
  refuse(path, "hidden_act = \"" + name + "\" is not supported", "supported: " + known);
}

BridgeTowerConfig::Text read_text(const Json& t, const std::string& path) {
  BridgeTowerConfig::Text text;
  text.vocab_size = extent(t, "vocab_size", path, text.vocab_size);
  text.hidden_size = extent(t, "hidden_size", path, text.hidden_size);
  text.num_hidden_layers = extent(t, "num_hidden_layers", path, text.num_hidden_layers);
  text.num_attention_heads = extent(t, "num_attention_heads", path, text.num_attention_heads);
  text.intermediate_size = extent(t, "intermediate_size", path, text.intermediate_size);
  text.max_position_embeddings = extent(t, "max_position_embeddings", path, text.max_position_embeddings);
  text.type_vocab_size = extent(t, "type_vocab_size", path, text.type_vocab_size);
  text.pad_token_id = get_int(t, "pad_token_id", path, text.pad_token_id);
  text.hidden_act = activation_named(t, path);
  text.hidden_dropout_prob = probability(t, "hidden_dropout_prob", path);
  text.attention_probs_dropout_prob = probability(t, "attention_probs_dropout_prob", path);
  text.layer_norm_eps = epsilon(t, path);
  if (text.pad_token_id < 0 || text.pad_token_id >= text.vocab_size)
    refuse(path, "pad_token_id = " + std::to_string(text.pad_token_id) + " is outside the vocabulary");
  const std::string kind = get_string(t, "position_embedding_type", path, "absolute");
  if (kind != "absolute")
    refuse(path, "position_embedding_type = \"" + kind + "\" is not supported", "only \"absolute\" is");
  if (get_bool(t, "add_cross_attention", path, false))
    refuse(path, "text_config.add_cross_attention = true is not supported");
  return text;
}

BridgeTowerConfig::Vision read_vision(const Json& v, const std::string& path) {
  BridgeTowerConfig::Vision vision;
  vision.hidden_size = extent(v, "hidden_size", path, vision.hidden_size);
  vision.num_hidden_layers = extent(v, "num_hidden_layers", path, vision.num_hidden_layers);
  vision.num_channels = extent(v, "num_channels", path, vision.num_channels);
  vision.patch_size = extent(v, "patch_size", path, vision.patch_size);
  vision.image_size = extent(v, "image_size", path, vision.image_size);
  vision.layer_norm_eps = epsilon(v, path);
  vision.initializer_factor = get_number(v, "initializer_factor", path, 1.0);
  vision.share_layernorm = get_bool(v, "share_layernorm", path, true);
  vision.remove_last_layer = get_bool(v, "remove_last_layer", path, false);
  return vision;
}

LinkTower link_named(const std::string& name, const std::string& path) {
  if (name == "add") return LinkTower::kAdd;
  if (name == "scaled_add") return LinkTower::kScaledAdd;
  if (name == "interpolate") return LinkTower::kInterpolate;
  refuse(path, "link_tower_type = \"" + name + "\" is not implemented in Transformers",
         "add, scaled_add or interpolate");
}

void check_contrastive(const BridgeTowerConfig& config, const std::string& path) {
  if (config.contrastive_hidden_size == 0) {
    refuse(path, "contrastive_hidden_size is missing, which the contrastive head needs",
           "Transformers has no default for it: add it (512 is usual)");
  }
  if (!config.has_logit_scale)
    refuse(path, "logit_scale_init_value is missing, which the contrastive head needs",
           "Transformers has no default for it: add it (2.6592 is usual)");
  if (!config.share_cross_modal_transformer_layers)
    refuse(path, "the contrastive head cannot run with share_cross_modal_transformer_layers = false",
           "Transformers fails on it too");
  if (config.vision.hidden_size != config.hidden_size) {
    refuse(path,
           "the contrastive head needs vision_config.hidden_size = hidden_size, found " +
               std::to_string(config.vision.hidden_size) + " and " + std::to_string(config.hidden_size),
           "Transformers fails on it too");
  }
}

}  // namespace

BridgeTowerConfig read_bridgetower_config(const std::string& path) {
  const Json json = read_json_file(path);
  const Json empty = Json::object();
  const Json* text = find_member(json, "text_config", path);
  const Json* vision = find_member(json, "vision_config", path);
  BridgeTowerConfig config;
  config.text = read_text(text == nullptr ? empty : *text, path);
  config.vision = read_vision(vision == nullptr ? empty : *vision, path);
  config.hidden_size = extent(json, "hidden_size", path, config.hidden_size);
  config.num_hidden_layers = extent(json, "num_hidden_layers", path, config.num_hidden_layers);
  config.hidden_act = activation_named(json, path);
  config.layer_norm_eps = epsilon(json, path);
  config.initializer_factor = get_number(json, "initializer_factor", path, 1.0);
  config.link_tower_type = link_named(get_string(json, "link_tower_type", path, "add"), path);
  config.share_cross_modal_transformer_layers = get_bool(json, "share_cross_modal_transformer_layers", path, true);
  config.share_link_tower_layers = get_bool(json, "share_link_tower_layers", path, false);
  config.init_layernorm_from_vision_encoder = get_bool(json, "init_layernorm_from_vision_encoder", path, false);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, false);
  if (find_member(json, "contrastive_hidden_size", path) != nullptr)
    config.contrastive_hidden_size = extent(json, "contrastive_hidden_size", path, 0);
  config.has_logit_scale = find_member(json, "logit_scale_init_value", path) != nullptr;
  config.logit_scale_init_value = get_number(json, "logit_scale_init_value", path, 0.0);
  return config;
}

void check_bridgetower_config(const BridgeTowerConfig& config, ModelHead head, const std::string& path) {
  const BridgeTowerConfig::Text& text = config.text;
  const BridgeTowerConfig::Vision& vision = config.vision;
  if (text.hidden_size != config.hidden_size)
    refuse(path,
           "text_config.hidden_size = " + std::to_string(text.hidden_size) +
               " differs from hidden_size = " + std::to_string(config.hidden_size),
           "cross-modal layers have the text width: make them equal");
  if (text.hidden_size % text.num_attention_heads != 0)
    refuse(path,
           "hidden_size = " + std::to_string(text.hidden_size) +
               " is not a multiple of text_config.num_attention_heads = " + std::to_string(text.num_attention_heads));
  if (vision.heads() < 1)
    refuse(path,
           "vision_config.hidden_size = " + std::to_string(vision.hidden_size) + " is too small for one attention head",
           "the vision tower has hidden_size / 64 heads: at least 64");
  if (vision.hidden_size % vision.heads() != 0)
    refuse(path, "vision_config.hidden_size = " + std::to_string(vision.hidden_size) + " is not a multiple of its " +
                     std::to_string(vision.heads()) + " heads (hidden_size / 64)");
  if (vision.image_size < vision.patch_size) refuse(path, "vision_config.image_size is smaller than patch_size");
  if (text.max_position_embeddings <= text.pad_token_id + 1)
    refuse(path, "text_config.max_position_embeddings leaves no position for a token");
  if (config.split() < 0)
    refuse(path,
           "num_hidden_layers = " + std::to_string(config.num_hidden_layers) +
               " cross-modal layers, but text_config.num_hidden_layers = " + std::to_string(text.num_hidden_layers),
           "at most one cross-modal layer more than text layers");
  if (vision.blocks() < text.num_hidden_layers)
    refuse(path,
           "the vision tower has " + std::to_string(vision.blocks()) + " layers to run, the text tower " +
               std::to_string(text.num_hidden_layers),
           "the vision tower needs at least as many");
  if (config.share_link_tower_layers && config.num_hidden_layers > 1)
    refuse(path, "share_link_tower_layers = true with more than one cross-modal layer cannot run",
           "Transformers fails on it too (TypeError)");
  if (config.init_layernorm_from_vision_encoder && !vision.share_layernorm)
    refuse(path, "init_layernorm_from_vision_encoder = true with share_layernorm = false cannot be built",
           "Transformers fails on it too (AttributeError)");
  if (head == ModelHead::kContrastive) check_contrastive(config, path);
}

const char* architecture_name(ModelHead head) {
  switch (head) {
    case ModelHead::kBase: return "BridgeTowerModel";
    case ModelHead::kContrastive: return "BridgeTowerForContrastiveLearning";
    case ModelHead::kImageTextMatching: return "BridgeTowerForImageAndTextRetrieval";
    case ModelHead::kMaskedLm: return "BridgeTowerForMaskedLM";
  }
  return "";
}

}  // namespace bascule
