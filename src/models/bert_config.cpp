// SPDX-License-Identifier: Apache-2.0
#include "src/models/bert_config.h"

#include "src/models/config_values.h"

namespace bascule {

BertConfig read_bert_config(const std::string& path) {
  const Json json = read_json_file(path);
  BertConfig config;
  config.vocab_size = config_extent(json, "vocab_size", path, config.vocab_size);
  config.hidden_size = config_extent(json, "hidden_size", path, config.hidden_size);
  config.num_hidden_layers = config_extent(json, "num_hidden_layers", path, config.num_hidden_layers);
  config.num_attention_heads = config_extent(json, "num_attention_heads", path, config.num_attention_heads);
  config.intermediate_size = config_extent(json, "intermediate_size", path, config.intermediate_size);
  config.max_position_embeddings = config_extent(json, "max_position_embeddings", path, config.max_position_embeddings);
  config.type_vocab_size = config_extent(json, "type_vocab_size", path, config.type_vocab_size);
  config.pad_token_id = get_int(json, "pad_token_id", path, config.pad_token_id);
  config.hidden_act = config_activation(json, path);
  config.hidden_dropout_prob = config_probability(json, "hidden_dropout_prob", path, 0.1);
  config.attention_probs_dropout_prob = config_probability(json, "attention_probs_dropout_prob", path, 0.1);
  config.layer_norm_eps = config_epsilon(json, path, 1e-12);
  config.initializer_range = config_initializer_range(json, path, config.initializer_range);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, true);
  if (config.hidden_size % config.num_attention_heads != 0)
    refuse_config(path,
                  "hidden_size = " + std::to_string(config.hidden_size) +
                      " is not a multiple of num_attention_heads = " + std::to_string(config.num_attention_heads));
  if (config.max_position_embeddings < 3)
    refuse_config(path, "max_position_embeddings leaves no position for a token between [CLS] and [SEP]");
  if (config.pad_token_id < 0 || config.pad_token_id >= config.vocab_size)
    refuse_config(path, "pad_token_id = " + std::to_string(config.pad_token_id) + " is outside the vocabulary");
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (get_bool(json, key, path, false)) refuse_config(path, std::string(key) + " = true is not supported");
  }
  const std::string kind = get_string(json, "position_embedding_type", path, "absolute");
  if (kind != "absolute")
    refuse_config(path, "position_embedding_type = \"" + kind + "\" is not supported", "only \"absolute\" is");
  return config;
}

}  // namespace bascule
