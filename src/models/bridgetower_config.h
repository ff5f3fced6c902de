// SPDX-License-Identifier: Apache-2.0
// config.json of a BridgeTower folder, with the class defaults of Transformers 5.23 for what it leaves out. Settings
// that the reference itself cannot run are refused here, with the reason.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"

namespace bascule {

enum class LinkTower { kAdd, kScaledAdd, kInterpolate };

// The head on the body. kBase: none (BridgeTowerModel).
enum class ModelHead { kBase, kContrastive, kImageTextMatching, kMaskedLm };

struct BridgeTowerConfig {
  struct Text {
    std::int64_t vocab_size = 50265, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
                 intermediate_size = 3072;
    std::int64_t max_position_embeddings = 514, type_vocab_size = 1, pad_token_id = 1;
    Activation hidden_act = Activation::kGelu;
    float hidden_dropout_prob = 0.1f, attention_probs_dropout_prob = 0.1f, layer_norm_eps = 1e-5f;
  };
  struct Vision {
    std::int64_t hidden_size = 768, num_hidden_layers = 12, num_channels = 3, patch_size = 16, image_size = 288;
    float layer_norm_eps = 1e-5f;
    double initializer_factor = 1.0;
    bool share_layernorm = true, remove_last_layer = false;
    std::int64_t heads() const { return hidden_size / 64; }  // whatever the file says
    std::int64_t blocks() const { return num_hidden_layers - (remove_last_layer ? 1 : 0); }
  };
  Text text;
  Vision vision;
  std::int64_t hidden_size = 768, num_hidden_layers = 6;  // of the cross-modal layers
  Activation hidden_act = Activation::kGelu;              // of the masked-LM head
  float layer_norm_eps = 1e-5f;                           // link towers, cross_modal_*_layernorm, masked-LM head
  double initializer_factor = 1.0;
  LinkTower link_tower_type = LinkTower::kAdd;
  bool share_cross_modal_transformer_layers = true, share_link_tower_layers = false;
  bool init_layernorm_from_vision_encoder = false;
  bool tie_word_embeddings = false;
  std::int64_t contrastive_hidden_size = 0;  // 0: not given; the contrastive head needs it
  double logit_scale_init_value = 0.0;
  bool has_logit_scale = false;

  // Tower layers of each kind before the first cross-modal layer.
  std::int64_t split() const { return text.num_hidden_layers - num_hidden_layers + 1; }
};

// Throws Error kData naming the file and the key.
BridgeTowerConfig read_bridgetower_config(const std::string& path);

// Throws Error kData where the reference cannot build or run this model with this head.
void check_bridgetower_config(const BridgeTowerConfig& config, ModelHead head, const std::string& path);

// The class name that config.json's "architectures" holds.
const char* architecture_name(ModelHead head);

}  // namespace bascule
