// SPDX-License-Identifier: Apache-2.0
// config.json of a T5 folder, with the class defaults of Transformers 5.23 for what it leaves out.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"

namespace bascule {

struct T5Config {
  std::int64_t vocab_size = 32128, d_model = 512, d_kv = 64, d_ff = 2048, num_layers = 6, num_heads = 8;
  std::int64_t num_decoder_layers = 0;  // not written: num_layers
  std::int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  std::int64_t pad_token_id = 0, decoder_start_token_id = 0;
  Activation activation = Activation::kRelu;  // of feed_forward_proj, as is_gated
  bool is_gated = false;
  float dropout_rate = 0.1f, layer_norm_epsilon = 1e-6f;
  double initializer_factor = 1.0;
  bool tie_word_embeddings = true;
  bool scales_outputs = true;  // the decoder's result is multiplied by d_model^-1/2 before the head

  std::int64_t inner_width() const { return num_heads * d_kv; }  // need not be d_model
};

// Throws Error kData naming the file and the key, also where the model cannot be built.
T5Config read_t5_config(const std::string& path);

}  // namespace bascule
