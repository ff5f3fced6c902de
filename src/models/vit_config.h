// SPDX-License-Identifier: Apache-2.0
// ViT's configuration, and the code with which Transformers loads a pooled classifier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/activation.h"

namespace bascule {

// config.json of a ViT folder, with the class defaults of Transformers 5.23 for what it leaves out.

// The classifier reads the class token's row, or the mean of the patches' rows, without a class token.
// Transformers knows the first alone; the second is PyCls' ("classifier_type" in config.json, default "token").
enum class ViTClassifier { kToken, kPooled };

struct ViTConfig {
  std::int64_t hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12, intermediate_size = 3072;
  std::int64_t image_size = 224, patch_size = 16, num_channels = 3;
  std::int64_t num_labels = 2;
  std::vector<std::string> label_names;  // by number; empty: the file says nothing about classes
  Activation hidden_act = Activation::kGelu;
  float hidden_dropout_prob = 0.0f, attention_probs_dropout_prob = 0.0f, layer_norm_eps = 1e-12f;
  double initializer_range = 0.02;
  bool qkv_bias = true;
  ViTClassifier classifier = ViTClassifier::kToken;
};

// image_size: in place of the file's; 0: that. Throws Error kData naming the file and the key, also where the model
// cannot be built.
ViTConfig read_vit_config(const std::string& path, std::int64_t image_size = 0);

// The Python file that lets Transformers load a ViT whose classifier reads the mean of the patches' rows.

constexpr char kPooledViTFile[] = "modeling_pooled_vit.py";
constexpr char kPooledViTClass[] = "PooledViTForImageClassification";
constexpr char kPooledViTAutoClass[] = "AutoModelForImageClassification";
extern const char* const kPooledViTCode;

}  // namespace bascule
