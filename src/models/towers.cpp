// SPDX-License-Identifier: Apache-2.0
#include "src/models/towers.h"

#include <cmath>
#include <utility>

#include "src/json/json.h"
#include "src/models/bridgetower.h"
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

Fields bridgetower_fields(const BridgeTowerConfig& config, ModelHead head, std::int64_t height, std::int64_t width,
                          bool image_row_keys) {
  const Extent tokens = rows_of_stream(kTextTokens), samples = rows_per_sample(1);
  Fields fields = {
      {"pixels", DType::kFloat32, samples, config.vision.num_channels * height * width, FieldSource::kPixels},
      {"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
      {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
      {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
      {"text_row_keys", DType::kInt64, tokens, 1, FieldSource::kTextRowKeys},
      {"sample_keys", DType::kInt64, samples, 1, FieldSource::kSampleKeys},
  };
  if (image_row_keys) {
    const Extent rows = rows_per_sample(image_rows(config, height, width));
    fields.push_back({"image_row_keys", DType::kInt64, rows, 1, FieldSource::kImageRowKeys});
  }
  if (head == ModelHead::kImageTextMatching)
    fields.push_back({"labels", DType::kInt32, samples, 1, FieldSource::kMatchLabels});
  if (head == ModelHead::kMaskedLm) {
    const Extent masked = rows_of_stream(kMaskedTokens);
    fields.push_back({"selected_rows", DType::kInt32, masked, 1, FieldSource::kMaskedRows});
    fields.push_back({"labels", DType::kInt32, masked, 1, FieldSource::kMaskedLabels});
  }
  return fields;
}

// The two towers: RoBERTa's layers for text, CLIP's for pictures.

BridgeTowerRecorder::BridgeTowerRecorder(Graph& target, const BridgeTowerConfig& model_config, std::string name_prefix,
                                         const std::vector<std::string>& frozen_parts, bool drops)
    : Recorder{target, {}, 0.05 * model_config.initializer_factor, drops},
      config(model_config),
      prefix(std::move(name_prefix)) {
  for (const std::string& part : frozen_parts) frozen.push_back(prefix + part + ".");
  const BridgeTowerConfig::Text& text = config.text;
  layer = {text.hidden_size,    text.num_attention_heads, text.intermediate_size,           text.hidden_act,
           text.layer_norm_eps, text.hidden_dropout_prob, text.attention_probs_dropout_prob};
}

Tensor text_embeddings(BridgeTowerRecorder& r) {
  const BridgeTowerConfig::Text& text = r.config.text;
  const std::string name = r.prefix + "text_model.embeddings";
  r.graph.set_scope(name);
  const double deviation = r.deviation;
  const Tensor word = r.table(name + ".word_embeddings.weight", text.vocab_size, text.hidden_size, deviation);
  const Tensor position =
      r.table(name + ".position_embeddings.weight", text.max_position_embeddings, text.hidden_size, deviation);
  const Tensor type =
      r.table(name + ".token_type_embeddings.weight", text.type_vocab_size, text.hidden_size, deviation);
  const std::int32_t padding = static_cast<std::int32_t>(text.pad_token_id);
  const Tensor sum =
      text_embedding(r.graph, name, {word, position, type},
                     {r.graph.field("token_ids"), r.graph.field("position_ids"), {}}, {padding, padding});
  const Tensor normed = norm(r, name + ".LayerNorm", sum, text.layer_norm_eps);
  return dropout(r.graph, name + ".dropout", normed, r.drop(text.hidden_dropout_prob), r.keys("text_row_keys"));
}

Tensor text_layer(BridgeTowerRecorder& r, std::int64_t i, Tensor x) {
  const std::string name = r.prefix + "text_model.encoder.layer." + std::to_string(i);
  r.graph.set_scope(name);
  const RowStream stream{x, r.text_rows()};
  return feed_forward_block(r, name, r.layer,
                            {attention_block(r, name + ".attention", r.layer, stream, stream), stream.rows});
}

std::string vision_name(const BridgeTowerRecorder& r, const std::string& name) {
  return r.prefix + "vision_model.visual." + name;
}

namespace {

std::string block_name(const BridgeTowerRecorder& r, std::int64_t i) {
  return vision_name(r, "transformer.resblocks." + std::to_string(i));
}

// The norm that reads the raw stream after block i - 1: ln_1 of block i, or ln_post behind the last block that runs.
std::string next_norm(const BridgeTowerRecorder& r, std::int64_t i) {
  return i < r.config.text.num_hidden_layers ? block_name(r, i) + ".ln_1" : vision_name(r, "ln_post");
}

Tensor scaled_dense(BridgeTowerRecorder& r, const std::string& name, const std::string& weight_name,
                    const std::string& bias_name, Tensor x, std::int64_t out, double standard_deviation) {
  const Tensor weight = r.weight(weight_name, out, r.graph[x].cols, standard_deviation);
  return linear(r.graph, name, x, weight, r.bias(bias_name, out));
}

}  // namespace

VisionState vision_embeddings(BridgeTowerRecorder& r, std::int64_t height, std::int64_t width) {
  const BridgeTowerConfig::Vision& vision = r.config.vision;
  const std::string name = vision_name(r, "embeddings");
  r.graph.set_scope(name);
  const double deviation = vision.initializer_factor / std::sqrt(static_cast<double>(vision.hidden_size));
  const std::int64_t p = vision.patch_size, side = vision.image_size / p;
  const std::int64_t patches = (height / p) * (width / p);
  const Tensor pixels =
      extract_patches(r.graph, name + ".patches", r.graph.field("pixels"), vision.num_channels, height, width, p);
  const Tensor kernel = r.shaped(name + ".patch_embedding.weight", {vision.hidden_size, vision.num_channels, p, p},
                                 vision.hidden_size, r.deviation);
  const Tensor patch = linear(r.graph, name + ".patch_embedding", pixels, kernel, Tensor{});
  const Tensor class_row =
      r.row(name + ".class_embedding", vision.hidden_size, {0.0f, static_cast<float>(deviation)}, true);
  Tensor position = r.table(name + ".position_embedding.weight", side * side + 1, vision.hidden_size, deviation);
  // As the reference decides: the table is left alone if the picture is square and has as many patches.
  if (height != width || patches != side * side)
    position = resize_positions(r.graph, name + ".resized", position, side, height / p, width / p, 1);
  const Tensor rows = image_embedding(r.graph, name, patch, class_row, position, patches);
  VisionState state;
  state.z = norm(r, vision_name(r, "ln_pre"), rows, vision.layer_norm_eps);
  state.normed = norm(r, next_norm(r, 0), state.z, vision.layer_norm_eps);
  return state;
}

VisionState vision_block(BridgeTowerRecorder& r, std::int64_t i, VisionState state, const SampleRows& rows) {
  const BridgeTowerConfig::Vision& vision = r.config.vision;
  const std::string name = block_name(r, i);
  r.graph.set_scope(name);
  const std::int64_t width = vision.hidden_size, heads = vision.heads();
  const double w = static_cast<double>(width), n = static_cast<double>(vision.num_hidden_layers),
               f = vision.initializer_factor;
  const double in_deviation = f / std::sqrt(w), out_deviation = f / std::sqrt(w) / std::sqrt(2.0 * n),
               up_deviation = f / std::sqrt(2.0 * w);

  const Tensor all = scaled_dense(r, name + ".attn.in_proj", name + ".attn.in_proj_weight", name + ".attn.in_proj_bias",
                                  state.normed, 3 * width, in_deviation);
  const Tensor context = attention(r.graph, name + ".attn", {all, 0}, rows, {all, width}, {all, 2 * width}, rows, heads,
                                   width / heads, {}, {});
  const std::string out = name + ".attn.out_proj", up = name + ".mlp.c_fc", down = name + ".mlp.c_proj";
  const Tensor a = scaled_dense(r, out, out + ".weight", out + ".bias", context, width, out_deviation);
  const Normalized middle = add_norm(r, name + ".ln_2", state.z, a, vision.layer_norm_eps);
  const Tensor wide = activation(r.graph, name + ".mlp.gelu",
                                 scaled_dense(r, up, up + ".weight", up + ".bias", middle.y, 4 * width, up_deviation),
                                 Activation::kQuickGelu);
  const Tensor m = scaled_dense(r, down, down + ".weight", down + ".bias", wide, width, out_deviation);
  const Normalized next = add_norm(r, next_norm(r, i + 1), middle.sum, m, vision.layer_norm_eps);
  return {next.sum, next.y};
}

Tensor cross_modal_layer(BridgeTowerRecorder& r, const std::string& modality, std::int64_t j, RowStream own,
                         RowStream other, bool first_only) {
  const std::string name = r.prefix + "cross_modal_" + modality + "_layers." + std::to_string(j);
  r.graph.set_scope(name);
  RowStream queries = own;
  if (first_only) queries = {first_rows(r.graph, name + ".first", own.x, own.rows), r.first_rows()};
  queries.x = attention_block(r, name + ".attention", r.layer, queries, own);
  queries.x = attention_block(r, name + ".crossattention", r.layer, queries, other);
  return feed_forward_block(r, name, r.layer, queries);
}

}  // namespace bascule
