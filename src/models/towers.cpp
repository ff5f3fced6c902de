// SPDX-License-Identifier: Apache-2.0
// The two towers: RoBERTa's layers for text, CLIP's for pictures.
#include "src/models/towers.h"

#include <cmath>
#include <utility>

namespace bascule {

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
    position = resize_positions(r.graph, name + ".resized", position, side, height / p, width / p, true);
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
