// SPDX-License-Identifier: Apache-2.0
#include "src/models/embed.h"

#include <string>

#include "src/models/bridgetower.h"
#include "src/models/towers.h"
#include "src/models/transforms.h"

namespace bascule {
namespace {

// The class's prefix of its body; everything is read, nothing trained.
BridgeTowerRecorder recorder_of(Graph& graph, const BridgeTowerConfig& config) {
  return {graph, config, kBodyPrefix, {"vision_model", "text_model"}, false};
}

Tensor embedding_of(BridgeTowerRecorder& r, const std::string& name, const std::string& head, Tensor class_rows) {
  const Tensor embeds = normalize(r.graph, name, dense(r, head, class_rows, r.config.contrastive_hidden_size));
  r.graph.keep(embeds);
  return embeds;
}

}  // namespace

Tensor record_text_embeds(Graph& graph, const BridgeTowerConfig& config) {
  BridgeTowerRecorder r = recorder_of(graph, config);
  Tensor t = text_embeddings(r);
  for (std::int64_t i = 0; i < config.text.num_hidden_layers; ++i) t = text_layer(r, i, t);
  graph.set_scope("contrastive_head");
  return embedding_of(r, "text_embeds", "itc_text_head.fc", first_rows(graph, "text_class_row", t, r.text_rows()));
}

Tensor record_image_embeds(Graph& graph, const BridgeTowerConfig& config, std::int64_t height, std::int64_t width) {
  BridgeTowerRecorder r = recorder_of(graph, config);
  const SampleRows rows = r.image_rows(image_rows(config, height, width));
  VisionState v = vision_embeddings(r, height, width);
  // The vision tower has as many layers as the text tower, whatever its own configuration says.
  for (std::int64_t i = 0; i < config.text.num_hidden_layers; ++i) v = vision_block(r, i, v, rows);
  graph.set_scope("contrastive_head");
  // Row by row as the transform is, the class rows are all that it must see.
  const Tensor first = first_rows(graph, "image_class_row", v.normed, rows);
  const Tensor bridged = Transforms(r).image(first, config.num_hidden_layers - 1);
  return embedding_of(r, "image_embeds", "itc_image_head.fc", bridged);
}

}  // namespace bascule
