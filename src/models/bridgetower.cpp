// SPDX-License-Identifier: Apache-2.0
#include "src/models/bridgetower.h"

namespace bascule {
namespace {

Tensor link(BridgeTowerRecorder& r, const std::string& modality, std::int64_t j, Tensor tower, Tensor cross) {
  const std::string name = r.prefix + "cross_modal_" + modality + "_link_tower." + std::to_string(j);
  const float epsilon = r.config.layer_norm_eps;
  switch (r.config.link_tower_type) {
    case LinkTower::kAdd: return add_norm(r, name + ".LayerNorm", tower, cross, epsilon).y;
    case LinkTower::kScaledAdd:
      return norm(r, name + ".LayerNorm",
                  blend(r.graph, name, Blend::kScaled, tower, cross, r.scalar(name + ".scaled_factor", 1.0f, true)),
                  epsilon);
    case LinkTower::kInterpolate:
      return norm(r, name + ".LayerNorm",
                  blend(r.graph, name, Blend::kInterpolate, tower, cross, r.scalar(name + ".beta", 0.5f, true)),
                  epsilon);
  }
  return {};
}

struct Body {
  Tensor text_tower;     // last layer of the text tower, all rows
  Tensor image_bridged;  // last layer of the vision tower after ln_post, transform and token type, all rows
  Tensor text, image;    // of the last cross-modal layers; image: none where the head does not read it
};

Body record_body(BridgeTowerRecorder& r, const BridgeTowerOptions& options, std::int64_t height, std::int64_t width) {
  const BridgeTowerConfig& config = r.config;
  const ModelHead head = options.head;
  const SampleRows text_rows = r.text_rows(), image_rows = r.image_rows(bascule::image_rows(config, height, width));
  const bool first_only = head == ModelHead::kContrastive || head == ModelHead::kImageTextMatching;
  const std::int64_t last = config.num_hidden_layers - 1;
  Transforms transforms(r);

  // Text after vision: backward goes the other way, and the word table, the largest gradient, is final before the
  // vision tower is differentiated, not after everything else.
  VisionState v = vision_embeddings(r, height, width);
  for (std::int64_t i = 0; i < config.split(); ++i) v = vision_block(r, i, v, image_rows);
  Tensor t = text_embeddings(r);
  std::int64_t tower = 0;
  for (; tower < config.split(); ++tower) t = text_layer(r, tower, t);

  Body body;
  Tensor text_in, image_in;
  for (std::int64_t j = 0; j <= last; ++j) {
    if (j > 0) {
      t = text_layer(r, tower, t);
      v = vision_block(r, tower, v, image_rows);
      ++tower;
    }
    r.graph.set_scope(r.prefix + "cross_modal_link." + std::to_string(j));
    const bool tower_done = tower == config.text.num_hidden_layers;
    const Tensor posted = tower_done ? v.normed : norm(r, vision_name(r, "ln_post"), v.z, config.vision.layer_norm_eps);
    const Tensor text_bridge = transforms.text(t, j);
    body.image_bridged = transforms.image(posted, j);
    if (j == 0) {
      text_in = norm(r, r.prefix + "cross_modal_text_layernorm", text_bridge, config.layer_norm_eps);
      image_in = norm(r, r.prefix + "cross_modal_image_layernorm", body.image_bridged, config.layer_norm_eps);
    } else {
      text_in = link(r, "text", j - 1, text_bridge, body.text);
      image_in = link(r, "image", j - 1, body.image_bridged, body.image);
    }
    const RowStream text_stream{text_in, text_rows}, image_stream{image_in, image_rows};
    const bool first = first_only && j == last;
    body.text = cross_modal_layer(r, "text", j, text_stream, image_stream, first);
    const bool image_read = head != ModelHead::kMaskedLm || j < last || options.every_output;
    body.image = image_read ? cross_modal_layer(r, "image", j, image_stream, text_stream, first) : Tensor{};
  }
  body.text_tower = t;
  return body;
}

// tanh(dense(first row)), text first. (B, 2 C)
Tensor record_pooler(BridgeTowerRecorder& r, const Body& body, bool first_rows_only, std::int64_t rows) {
  r.graph.set_scope(r.prefix + "cross_modal_pooler");
  const auto pool = [&](const std::string& modality, Tensor x, const SampleRows& of) {
    const std::string name = r.prefix + "cross_modal_" + modality + "_pooler";
    const Tensor first = first_rows_only ? x : first_rows(r.graph, name + ".first", x, of);
    return activation(r.graph, name, dense(r, name + ".dense", first, r.config.hidden_size), Activation::kTanh);
  };
  const Tensor text = pool("text", body.text, r.text_rows());
  return concatenate(r.graph, r.prefix + "pooler_output", text, pool("image", body.image, r.image_rows(rows)));
}

void record_contrastive(BridgeTowerRecorder& r, const Body& body, std::int64_t rows, BridgeTowerOutputs* out) {
  r.graph.set_scope("contrastive_head");
  const std::int64_t width = r.config.contrastive_hidden_size;
  const Tensor text = first_rows(r.graph, "text_class_row", body.text_tower, r.text_rows());
  const Tensor image = first_rows(r.graph, "image_class_row", body.image_bridged, r.image_rows(rows));
  out->text_embeds = normalize(r.graph, "text_embeds", dense(r, "itc_text_head.fc", text, width));
  out->image_embeds = normalize(r.graph, "image_embeds", dense(r, "itc_image_head.fc", image, width));
  out->cross_embeds =
      normalize(r.graph, "cross_embeds", dense(r, "itc_cross_modal_head.fc", out->pooler_output, width));
  const Tensor scale = r.scalar("logit_scale", static_cast<float>(r.config.logit_scale_init_value), true);
  out->loss = contrastive_loss(r.graph, out->text_embeds, out->image_embeds, out->cross_embeds, scale);
}

ClassLoss record_class_loss(Graph& graph, float smoothing, BridgeTowerOutputs* out) {
  const ClassLoss loss = cross_entropy_loss(graph, out->logits, graph.field("labels"), smoothing);
  out->loss = loss.loss;
  out->hits = loss.hits;
  return loss;
}

void record_masked_lm(BridgeTowerRecorder& r, const Body& body, const BridgeTowerOptions& options,
                      BridgeTowerOutputs* out) {
  r.graph.set_scope("masked_lm_head");
  const BridgeTowerConfig::Text& text = r.config.text;
  const Tensor rows = gather_rows(r.graph, "selected", body.text, r.graph.field("selected_rows"));
  const Tensor h = activation(r.graph, "mlm_score.transform.act",
                              dense(r, "mlm_score.transform.dense", rows, r.config.hidden_size), r.config.hidden_act);
  const Tensor normed = norm(r, "mlm_score.transform.LayerNorm", h, r.config.layer_norm_eps);
  const bool tied = options.tie_word_embeddings;
  const std::string decoder =
      tied ? r.prefix + "text_model.embeddings.word_embeddings.weight" : "mlm_score.decoder.weight";
  const Tensor weight = r.weight(decoder, text.vocab_size, r.config.hidden_size, r.deviation);
  out->logits = linear(r.graph, "logits", normed, weight, r.bias("mlm_score.bias", text.vocab_size));
  const ClassLoss loss = record_class_loss(r.graph, options.label_smoothing, out);
  out->loss_stream = kMaskedTokens;
  if (!options.predictions) return;
  const ClassPredictions predictions = class_predictions(r.graph, out->logits, r.graph.field("labels"), loss);
  out->predicted = predictions.classes;
  out->predicted_probabilities = predictions.class_probabilities;
  out->probabilities = predictions.probabilities;
}

void keep_all(Graph& graph, std::initializer_list<Tensor> tensors) {
  for (const Tensor tensor : tensors) {
    if (tensor) graph.keep(tensor);
  }
}

}  // namespace

std::int64_t image_rows(const BridgeTowerConfig& config, std::int64_t height, std::int64_t width) {
  const std::int64_t p = config.vision.patch_size;
  return (height / p) * (width / p) + 1;
}

BridgeTowerOutputs record_bridgetower(Graph& graph, const BridgeTowerConfig& config,
                                      const BridgeTowerOptions& options) {
  BridgeTowerRecorder r(graph, config, options.head == ModelHead::kBase ? "" : kBodyPrefix, options.frozen,
                        options.dropout);
  const std::int64_t height = options.height > 0 ? options.height : config.vision.image_size;
  const std::int64_t width = options.width > 0 ? options.width : config.vision.image_size;
  const std::int64_t rows = image_rows(config, height, width);
  const Body body = record_body(r, options, height, width);

  BridgeTowerOutputs out;
  out.text_features = body.text;
  out.image_features = body.image;
  out.first_rows_only = options.head == ModelHead::kContrastive || options.head == ModelHead::kImageTextMatching;
  if (body.image) out.pooler_output = record_pooler(r, body, out.first_rows_only, rows);
  switch (options.head) {
    case ModelHead::kBase: break;
    case ModelHead::kContrastive: record_contrastive(r, body, rows, &out); break;
    case ModelHead::kImageTextMatching:
      graph.set_scope("matching_head");
      out.logits = dense(r, "itm_score.fc", out.pooler_output, 2);
      record_class_loss(graph, options.label_smoothing, &out);
      break;
    case ModelHead::kMaskedLm: record_masked_lm(r, body, options, &out); break;
  }
  keep_all(graph, {out.text_features, out.image_features, out.pooler_output, out.text_embeds, out.image_embeds,
                   out.cross_embeds});
  if (options.head == ModelHead::kImageTextMatching || (out.logits && options.every_output)) graph.keep(out.logits);
  return out;
}

}  // namespace bascule
