// SPDX-License-Identifier: Apache-2.0
#include "src/models/bridgetower_config.h"

#include "src/json/json.h"
#include "src/models/config_values.h"

namespace bascule {
namespace {

BridgeTowerConfig::Text read_text(const Json& t, const std::string& path) {
  BridgeTowerConfig::Text text;
  read_config_extents(t, path,
                      {{"vocab_size", &text.vocab_size},
                       {"hidden_size", &text.hidden_size},
                       {"num_hidden_layers", &text.num_hidden_layers},
                       {"num_attention_heads", &text.num_attention_heads},
                       {"intermediate_size", &text.intermediate_size},
                       {"max_position_embeddings", &text.max_position_embeddings},
                       {"type_vocab_size", &text.type_vocab_size}});
  text.pad_token_id = get_int(t, "pad_token_id", path, text.pad_token_id);
  text.hidden_act = config_activation(t, path);
  text.hidden_dropout_prob = config_probability(t, "hidden_dropout_prob", path, 0.1);
  text.attention_probs_dropout_prob = config_probability(t, "attention_probs_dropout_prob", path, 0.1);
  text.layer_norm_eps = config_epsilon(t, path, 1e-5);
  check_padding_token(text.pad_token_id, text.vocab_size, path);
  check_positions_are_absolute(t, path);
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (get_bool(t, key, path, false))
      refuse_config(path, "text_config." + std::string(key) + " = true is not supported");
  }
  return text;
}

BridgeTowerConfig::Vision read_vision(const Json& v, const std::string& path) {
  BridgeTowerConfig::Vision vision;
  read_config_extents(v, path,
                      {{"hidden_size", &vision.hidden_size},
                       {"num_hidden_layers", &vision.num_hidden_layers},
                       {"num_channels", &vision.num_channels},
                       {"patch_size", &vision.patch_size},
                       {"image_size", &vision.image_size}});
  vision.layer_norm_eps = config_epsilon(v, path, 1e-5);
  vision.initializer_factor = get_number(v, "initializer_factor", path, 1.0);
  vision.share_layernorm = get_bool(v, "share_layernorm", path, true);
  vision.remove_last_layer = get_bool(v, "remove_last_layer", path, false);
  return vision;
}

LinkTower link_named(const std::string& name, const std::string& path) {
  if (name == "add") return LinkTower::kAdd;
  if (name == "scaled_add") return LinkTower::kScaledAdd;
  if (name == "interpolate") return LinkTower::kInterpolate;
  refuse_config(path, "link_tower_type = \"" + name + "\" is not implemented in Transformers",
                "add, scaled_add or interpolate");
}

void check_contrastive(const BridgeTowerConfig& config, const std::string& path) {
  if (config.contrastive_hidden_size == 0) {
    refuse_config(path, "contrastive_hidden_size is missing, which the contrastive head needs",
                  "Transformers has no default for it: add it (512 is usual)");
  }
  if (!config.has_logit_scale)
    refuse_config(path, "logit_scale_init_value is missing, which the contrastive head needs",
                  "Transformers has no default for it: add it (2.6592 is usual)");
  if (!config.share_cross_modal_transformer_layers)
    refuse_config(path, "the contrastive head cannot run with share_cross_modal_transformer_layers = false",
                  "Transformers fails on it too");
  if (config.vision.hidden_size != config.hidden_size) {
    refuse_config(path,
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
  read_config_extents(json, path,
                      {{"hidden_size", &config.hidden_size}, {"num_hidden_layers", &config.num_hidden_layers}});
  config.hidden_act = config_activation(json, path);
  config.layer_norm_eps = config_epsilon(json, path, 1e-5);
  config.initializer_factor = get_number(json, "initializer_factor", path, 1.0);
  config.link_tower_type = link_named(get_string(json, "link_tower_type", path, "add"), path);
  config.share_cross_modal_transformer_layers = get_bool(json, "share_cross_modal_transformer_layers", path, true);
  config.share_link_tower_layers = get_bool(json, "share_link_tower_layers", path, false);
  config.init_layernorm_from_vision_encoder = get_bool(json, "init_layernorm_from_vision_encoder", path, false);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, false);
  if (find_member(json, "contrastive_hidden_size", path) != nullptr)
    config.contrastive_hidden_size = config_extent(json, "contrastive_hidden_size", path, 0);
  config.has_logit_scale = find_member(json, "logit_scale_init_value", path) != nullptr;
  config.logit_scale_init_value = get_number(json, "logit_scale_init_value", path, 0.0);
  return config;
}

void check_bridgetower_config(const BridgeTowerConfig& config, ModelHead head, const std::string& path) {
  const BridgeTowerConfig::Text& text = config.text;
  const BridgeTowerConfig::Vision& vision = config.vision;
  if (text.hidden_size != config.hidden_size)
    refuse_config(path,
                  "text_config.hidden_size = " + std::to_string(text.hidden_size) +
                      " differs from hidden_size = " + std::to_string(config.hidden_size),
                  "cross-modal layers have the text width: make them equal");
  if (text.hidden_size % text.num_attention_heads != 0)
    refuse_config(path, "hidden_size = " + std::to_string(text.hidden_size) +
                            " is not a multiple of text_config.num_attention_heads = " +
                            std::to_string(text.num_attention_heads));
  if (vision.heads() < 1)
    refuse_config(
        path,
        "vision_config.hidden_size = " + std::to_string(vision.hidden_size) + " is too small for one attention head",
        "the vision tower has hidden_size / 64 heads: at least 64");
  if (vision.hidden_size % vision.heads() != 0)
    refuse_config(path, "vision_config.hidden_size = " + std::to_string(vision.hidden_size) +
                            " is not a multiple of its " + std::to_string(vision.heads()) +
                            " heads (hidden_size / 64)");
  if (vision.image_size < vision.patch_size) refuse_config(path, "vision_config.image_size is smaller than patch_size");
  if (text.max_position_embeddings <= text.pad_token_id + 1)
    refuse_config(path, "text_config.max_position_embeddings leaves no position for a token");
  if (config.split() < 0)
    refuse_config(
        path,
        "num_hidden_layers = " + std::to_string(config.num_hidden_layers) +
            " cross-modal layers, but text_config.num_hidden_layers = " + std::to_string(text.num_hidden_layers),
        "at most one cross-modal layer more than text layers");
  if (vision.blocks() < text.num_hidden_layers)
    refuse_config(path,
                  "the vision tower has " + std::to_string(vision.blocks()) + " layers to run, the text tower " +
                      std::to_string(text.num_hidden_layers),
                  "the vision tower needs at least as many");
  if (config.share_link_tower_layers && config.num_hidden_layers > 1)
    refuse_config(path, "share_link_tower_layers = true with more than one cross-modal layer cannot run",
                  "Transformers fails on it too (TypeError)");
  if (config.init_layernorm_from_vision_encoder && !vision.share_layernorm)
    refuse_config(path, "init_layernorm_from_vision_encoder = true with share_layernorm = false cannot be built",
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
