// SPDX-License-Identifier: Apache-2.0
// BridgeTower's configuration, batch, towers and cross-modal layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/activation.h"
#include "src/base/batch.h"
#include "src/models/recorder.h"

namespace bascule {

// config.json of a BridgeTower folder, with the class defaults of Transformers 5.23 for what it leaves out. Settings
// that the reference itself cannot run are refused here, with the reason.

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

// The streams of rows and the fields of a batch that BridgeTower reads.

inline constexpr int kTextTokens = kFirstModelStream;        // R
inline constexpr int kMaskedTokens = kFirstModelStream + 1;  // M: those that a masked-LM head predicts

// For pictures of height x width. image_row_keys: where something is dropped.
Fields bridgetower_fields(const BridgeTowerConfig& config, ModelHead head, std::int64_t height, std::int64_t width,
                          bool image_row_keys);

// BridgeTower's towers and cross-modal layers. Each function adds its operations to the graph; equations: Transformers'
// modeling_bridgetower.py, class by class.

struct BridgeTowerRecorder : Recorder {
  // frozen: names of parts of the body, without its prefix.
  BridgeTowerRecorder(Graph& target, const BridgeTowerConfig& model_config, std::string name_prefix,
                      const std::vector<std::string>& frozen_parts, bool drops);

  const BridgeTowerConfig& config;
  std::string prefix;  // "bridgetower." in the classes with a head, "" in the bare model
  LayerShape layer;    // of the text tower and of the cross-modal layers

  SampleRows text_rows() const {
    return {rows_of_stream(kTextTokens), graph.field("text_offsets"), keys("text_row_keys")};
  }
};

// The text tower's embeddings and its layers (post-norm).
Tensor text_embeddings(BridgeTowerRecorder& r);
Tensor text_layer(BridgeTowerRecorder& r, std::int64_t i, Tensor x);

// The vision tower (pre-norm): z is the raw stream, `normed` is what the next block reads, ln_1 of that block.
struct VisionState {
  Tensor z, normed;
};
// Pictures of height x width; another size than the model's resizes the position table.
VisionState vision_embeddings(BridgeTowerRecorder& r, std::int64_t height, std::int64_t width);
VisionState vision_block(BridgeTowerRecorder& r, std::int64_t i, VisionState state, const SampleRows& rows);
std::string vision_name(const BridgeTowerRecorder& r, const std::string& name);

// One cross-modal layer of one stream ("text" or "image"). first_only: rows of x are each sample's first row.
Tensor cross_modal_layer(BridgeTowerRecorder& r, const std::string& modality, std::int64_t j, RowStream own,
                         RowStream other, bool first_only);

// Projects a tower's rows to the cross-modal width, with their token type: x W^T + (b + type[index]). One for all
// links, or one each. The picture embedding of the contrastive head reads the last one of the pictures.

class Transforms {
 public:
  // The recorder outlives this.
  explicit Transforms(BridgeTowerRecorder& r) : r_(r) {}

  // Rows that enter cross-modal layer j.
  Tensor text(Tensor t, std::int64_t j) { return apply("text", 0, t, j); }
  Tensor image(Tensor v, std::int64_t j) { return apply("image", 1, v, j); }

 private:
  Tensor apply(const std::string& modality, std::int64_t type, Tensor x, std::int64_t j) {
    const bool shared = r_.config.share_cross_modal_transformer_layers;
    const std::string name =
        r_.prefix + "cross_modal_" + modality + "_transform" + (shared ? "" : "." + std::to_string(j));
    const std::int64_t width = r_.config.hidden_size;
    const Tensor weight = r_.weight(name + ".weight", width, r_.graph[x].cols, r_.deviation);
    Tensor& bias = bias_[static_cast<std::size_t>(type)];
    if (!bias || !shared) {
      const Tensor types = r_.table(r_.prefix + "token_type_embeddings.weight", 2, width, r_.deviation);
      bias = add_table_row(r_.graph, name + ".bias_and_type", r_.bias(name + ".bias", width), types, type);
    }
    return linear(r_.graph, name, x, weight, bias);
  }

  BridgeTowerRecorder& r_;
  Tensor bias_[2];
};

}  // namespace bascule
