// SPDX-License-Identifier: Apache-2.0
// The layers of T5, and its configuration.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"
#include "src/models/model.h"
#include "src/models/recorder.h"

namespace bascule {

// config.json of a T5 folder, with the class defaults of Transformers 5.23 for what it leaves out.

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

// The layers of T5, for its graphs: the two stacks over whole texts, and the decoder over one further token of each
// row. Equations: Transformers' modeling_t5.py.

// The embedding of the words of both stacks, and the head where it is not tied to that embedding.
constexpr char kT5Words[] = "shared.weight", kT5LmHead[] = "lm_head.weight";

struct T5Recorder : Recorder {
  T5Recorder(Graph& target, const T5Config& model_config, const RecordOptions& options);

  DropoutPlace next_dropout() { return drop(config.dropout_rate); }  // all have one rate
  // The standard deviation of weights that read so many columns.
  double fan_in(std::int64_t columns) const;
  Tensor words();
  Tensor norm_weight(const std::string& name);

  const T5Config& config;
};

// One of the two stacks: what its blocks share.
struct T5Stack {
  std::string name;  // "encoder"
  std::int64_t depth = 0;
  bool is_decoder = false;
  SampleRows rows;
  AttentionOptions self_attention;
};

// span: the most tokens of a text.
T5Stack record_t5_encoder(T5Recorder& r, const SampleRows& rows, std::int64_t span);
T5Stack record_t5_decoder(T5Recorder& r, const SampleRows& rows, std::int64_t span);

// The stack's result: its last norm, with dropout behind. ids: a field. encoded: the encoder's result, which a decoder
// reads; none for the encoder.
Tensor record_t5_blocks(T5Recorder& r, const T5Stack& stack, const char* ids, const RowStream& encoded);

// Keeps the keys and values of the encoder's result for all decoder layers.
void record_t5_source_cache(T5Recorder& r, const DecodingShape& shape, Tensor encoded);
// The decoder's result for one further token of each live row, whose keys and values are kept too.
Tensor record_t5_next(T5Recorder& r, const DecodingShape& shape);

// (rows, vocabulary) of the decoder's result.
Tensor record_t5_logits(T5Recorder& r, Tensor decoded, bool head_is_tied);

}  // namespace bascule
