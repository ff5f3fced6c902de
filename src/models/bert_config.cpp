// SPDX-License-Identifier: Apache-2.0
#include "src/models/bert_config.h"

#include "src/models/config_values.h"

namespace bascule {

BertConfig read_bert_config(const std::string& path, BertConfig config) {
  const Json json = read_json_file(path);
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"hidden_size", &config.hidden_size},
                       {"num_hidden_layers", &config.num_hidden_layers},
                       {"num_attention_heads", &config.num_attention_heads},
                       {"intermediate_size", &config.intermediate_size},
                       {"max_position_embeddings", &config.max_position_embeddings},
                       {"type_vocab_size", &config.type_vocab_size}});
  config.pad_token_id = get_int(json, "pad_token_id", path, config.pad_token_id);
  config.hidden_act = config.head_act = config_activation(json, path);
  config.hidden_dropout_prob = config_probability(json, "hidden_dropout_prob", path, 0.1);
  config.attention_probs_dropout_prob = config_probability(json, "attention_probs_dropout_prob", path, 0.1);
  const Json* const of_classifier = find_member(json, "classifier_dropout", path);
  config.classifier_dropout = of_classifier == nullptr || of_classifier->is_null()
                                  ? config.hidden_dropout_prob
                                  : config_probability(json, "classifier_dropout", path, 0.1);
  config.tag_dropout = config.classifier_dropout;
  config.layer_norm_eps = config_epsilon(json, path, 1e-12);
  config.initializer_range = config_factor(json, "initializer_range", path, config.initializer_range);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, true);
  check_width_of_heads(config.hidden_size, config.num_attention_heads, path);
  check_room_for_tokens(config, 0, path);
  check_padding_token(config.pad_token_id, config.vocab_size, path);
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (get_bool(json, key, path, false)) refuse_config(path, std::string(key) + " = true is not supported");
  }
  check_positions_are_absolute(json, path);
  return config;
}

void check_room_for_tokens(const BertConfig& config, std::int64_t first, const std::string& path) {
  if (config.max_position_embeddings - first >= 3) return;
  refuse_config(path, "max_position_embeddings = " + std::to_string(config.max_position_embeddings) +
                          " leaves no position for a token between the special ones" +
                          (first > 0 ? ": the first has position " + std::to_string(first) : ""));
}

}  // namespace bascule
