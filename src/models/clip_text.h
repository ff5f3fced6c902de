// SPDX-License-Identifier: Apache-2.0
// The text encoder of a pipeline.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"

namespace bascule {

// config.json of the text encoder of a pipeline, with the class defaults of Transformers 5.23 for what it leaves out.

struct ClipTextConfig {
  std::int64_t vocab_size = 49408, hidden_size = 512, intermediate_size = 2048;
  std::int64_t num_hidden_layers = 12, num_attention_heads = 8, max_position_embeddings = 77;
  Activation hidden_act = Activation::kQuickGelu;
  float layer_norm_eps = 1e-5f;
};

// Throws Error kData naming the file and the key, also where the model cannot be built.
ClipTextConfig read_clip_text_config(const std::string& path);

}  // namespace bascule
