// SPDX-License-Identifier: Apache-2.0
// The shapes of the published models, with the contrastive head's width of 512.
#pragma once

#include <map>
#include <string>

#include "src/models/towers.h"

namespace bascule::test {

// BridgeTower/bridgetower-base: what config.json's defaults give.
inline BridgeTowerConfig base_config() {
  BridgeTowerConfig config;
  config.contrastive_hidden_size = 512;
  config.has_logit_scale = true;
  config.logit_scale_init_value = 2.6592;
  return config;
}

// BridgeTower/bridgetower-large-itm-mlm-itc.
inline BridgeTowerConfig large_config() {
  BridgeTowerConfig config = base_config();
  config.hidden_size = config.text.hidden_size = config.vision.hidden_size = 1024;
  config.text.intermediate_size = 4096;
  config.text.num_attention_heads = 16;
  config.text.num_hidden_layers = config.vision.num_hidden_layers = 24;
  config.vision.patch_size = 14;
  config.vision.image_size = 294;
  return config;
}

// config.json of the models that other runs of config/ begin with, by the name of their folder.
inline const std::map<std::string, std::string> kPublishedConfigs = {
    {"vit-base", R"({"model_type": "vit", "layer_norm_eps": 1e-6, "num_labels": 1000})"},
    {"vit-base-patch16-224-in21k", R"({"model_type": "vit", "num_labels": 3})"},
    {"deit-base-distilled-patch16-224", R"({"model_type": "deit", "num_labels": 3})"},
    {"bert-base-cased", R"({"model_type": "bert", "vocab_size": 28996})"},
    {"bert-base-v32000", R"({"model_type": "bert", "vocab_size": 32000})"},
    {"bert-large", R"({"model_type": "bert", "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24,
                       "intermediate_size": 4096})"},
    {"roberta-base", R"({"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1,
                         "layer_norm_eps": 1e-5})"},
    {"t5-small", R"({"model_type": "t5", "decoder_start_token_id": 0})"},
    {"t5-base", R"({"model_type": "t5", "decoder_start_token_id": 0, "d_model": 768, "d_ff": 3072, "num_layers": 12,
                    "num_heads": 12})"},
    {"t5-large", R"({"model_type": "t5", "decoder_start_token_id": 0, "d_model": 1024, "d_ff": 4096, "num_layers": 24,
                     "num_heads": 16})"},
    {"t5-3b", R"({"model_type": "t5", "decoder_start_token_id": 0, "d_model": 1024, "d_kv": 128, "d_ff": 16384,
                  "num_layers": 24, "num_heads": 32})"},
    {"flan-t5-xl", R"({"model_type": "t5", "decoder_start_token_id": 0, "d_model": 2048, "d_kv": 64, "d_ff": 5120,
                       "num_layers": 24, "num_heads": 32, "feed_forward_proj": "gated-gelu",
                       "tie_word_embeddings": false})"},
};

// The extents of a batch of BridgeTower.
inline BatchCounts bridgetower_counts(std::int64_t samples, std::int64_t text_tokens, std::int64_t masked_tokens = 0) {
  BatchCounts counts;
  counts[kSamples] = samples;
  counts[kTextTokens] = text_tokens;
  counts[kMaskedTokens] = masked_tokens;
  return counts;
}

}  // namespace bascule::test
