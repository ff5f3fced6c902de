// SPDX-License-Identifier: Apache-2.0
#include "src/models/vit_config.h"

#include "src/models/config_values.h"

namespace bascule {
namespace {

// A side of squares: a number, or a list of two equal ones.
std::int64_t side_of(const Json& json, const char* key, const std::string& path, std::int64_t fallback) {
  const Json* const member = find_member(json, key, path);
  if (member == nullptr || !member->is_array()) return config_extent(json, key, path, fallback);
  if (member->size() != 2 || !((*member)[0] == (*member)[1]))
    refuse_config(path, std::string(key) + " = " + json_text(*member) + " is not supported",
                  "only one number is, or a list of two equal ones");
  return config_extent(Json{{key, (*member)[0]}}, key, path, fallback);
}

ViTClassifier classifier_of(const Json& json, const std::string& path) {
  const std::string type = get_string(json, "classifier_type", path, "token");
  if (type != "token" && type != "pooled")
    refuse_config(path, "classifier_type = \"" + type + "\" is not supported", "only \"token\" and \"pooled\" are");
  return type == "token" ? ViTClassifier::kToken : ViTClassifier::kPooled;
}

}  // namespace

ViTConfig read_vit_config(const std::string& path, std::int64_t image_size) {
  const Json json = read_json_file(path);
  ViTConfig config;
  read_config_extents(json, path,
                      {{"hidden_size", &config.hidden_size},
                       {"num_hidden_layers", &config.num_hidden_layers},
                       {"num_attention_heads", &config.num_attention_heads},
                       {"intermediate_size", &config.intermediate_size}});
  config.image_size = side_of(json, "image_size", path, config.image_size);
  if (image_size > 0) config.image_size = image_size;
  config.patch_size = side_of(json, "patch_size", path, config.patch_size);
  config.num_channels = config_extent(json, "num_channels", path, config.num_channels);
  config.label_names = class_names_of(json, path);
  if (!config.label_names.empty()) config.num_labels = static_cast<std::int64_t>(config.label_names.size());
  config.hidden_act = config_activation(json, path);
  config.hidden_dropout_prob = config_probability(json, "hidden_dropout_prob", path, 0.0);
  config.attention_probs_dropout_prob = config_probability(json, "attention_probs_dropout_prob", path, 0.0);
  config.layer_norm_eps = config_epsilon(json, path, 1e-12);
  config.initializer_range = config_factor(json, "initializer_range", path, config.initializer_range);
  config.qkv_bias = get_bool(json, "qkv_bias", path, true);
  config.classifier = classifier_of(json, path);
  if (config.num_labels < 2) refuse_config(path, "the model has one class", "a classifier needs two or more");
  check_width_of_heads(config.hidden_size, config.num_attention_heads, path);
  const std::int64_t head_dim = config.hidden_size / config.num_attention_heads;
  if (config_extent(json, "head_dim", path, head_dim) != head_dim)
    refuse_config(path, "head_dim differs from hidden_size / num_attention_heads = " + std::to_string(head_dim),
                  "only that is supported");
  if (config.image_size < config.patch_size)
    refuse_config(path, std::string(image_size > 0 ? "model.image_size = " : "image_size = ") +
                            std::to_string(config.image_size) +
                            " is smaller than patch_size = " + std::to_string(config.patch_size));
  const std::string problem = get_string(json, "problem_type", path, "single_label_classification");
  if (problem != "single_label_classification")
    refuse_config(path, "problem_type = \"" + problem + "\" is not supported",
                  "only \"single_label_classification\" is");
  return config;
}

// ViTModel is kept, so that its names in the file are those of every ViT; only its embeddings are others.
const char* const kPooledViTCode = R"py(# SPDX-License-Identifier: Apache-2.0
"""A ViT without a class token: its classifier reads the mean of the patches' rows."""
import torch
from torch import nn
from transformers import ViTForImageClassification
from transformers.modeling_outputs import ImageClassifierOutput


class PooledViTEmbeddings(nn.Module):
    """The embeddings of a ViT without the class token and its row of the position table."""

    def __init__(self, embeddings, config):
        super().__init__()
        self.patch_embeddings = embeddings.patch_embeddings
        self.dropout = embeddings.dropout
        side = config.image_size // config.patch_size
        table = torch.randn(1, side * side, config.hidden_size) * config.initializer_range
        self.position_embeddings = nn.Parameter(table)
        self.image_size, self.patch_size, self.side = config.image_size, config.patch_size, side

    def positions(self, height, width, resize):
        if height == width == self.image_size:
            return self.position_embeddings
        if not resize:
            raise ValueError(f"pictures of {height}x{width} pixels, but the model's side is {self.image_size}")
        grid = (height // self.patch_size, width // self.patch_size)
        if height == width and grid[0] == self.side:
            return self.position_embeddings
        table = self.position_embeddings.unflatten(1, (self.side, self.side)).permute(0, 3, 1, 2)
        return nn.functional.interpolate(table, size=grid, mode="bicubic").flatten(2).transpose(1, 2)

    def forward(self, pixel_values, bool_masked_pos=None, interpolate_pos_encoding=False):
        patches = self.patch_embeddings.projection(pixel_values).flatten(2).transpose(1, 2)
        return self.dropout(patches + self.positions(*pixel_values.shape[2:], interpolate_pos_encoding))


class PooledViTForImageClassification(ViTForImageClassification):
    def __init__(self, config):
        super().__init__(config)
        self.vit.embeddings = PooledViTEmbeddings(self.vit.embeddings, config)

    def forward(self, pixel_values=None, labels=None, interpolate_pos_encoding=False, return_dict=True, **kwargs):
        found = self.vit(pixel_values, interpolate_pos_encoding=interpolate_pos_encoding, return_dict=True, **kwargs)
        logits = self.classifier(found.last_hidden_state.mean(dim=1))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        output = ImageClassifierOutput(
            loss=loss, logits=logits, hidden_states=found.hidden_states, attentions=found.attentions
        )
        return output if return_dict else output.to_tuple()
)py";

}  // namespace bascule
