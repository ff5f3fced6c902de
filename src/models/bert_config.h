// SPDX-License-Identifier: Apache-2.0
// config.json of a folder of BERT or of one of its relatives.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"

namespace bascule {

// BERT's class defaults in Transformers 5.23.
struct BertConfig {
  std::int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
               intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512, type_vocab_size = 2, pad_token_id = 0;
  Activation hidden_act = Activation::kGelu, head_act = Activation::kGelu;  // of layers, and of masked words
  float hidden_dropout_prob = 0.1f, attention_probs_dropout_prob = 0.1f, layer_norm_eps = 1e-12f;
  float classifier_dropout = 0.1f, tag_dropout = 0.1f;  // before labels of texts, and before those of words
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};

// config: what the file leaves out. Throws Error kData naming the file and the key, also where the model cannot be
// built.
BertConfig read_bert_config(const std::string& path, BertConfig config = {});
// Refuses a model without a position for a token between two special ones. first: the position of a text's first token.
void check_room_for_tokens(const BertConfig& config, std::int64_t first, const std::string& path);

}  // namespace bascule
