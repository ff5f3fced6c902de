// SPDX-License-Identifier: Apache-2.0
#include "src/models/t5_config.h"

#include <algorithm>

#include "src/graph/operations.h"
#include "src/models/config_values.h"

namespace bascule {
namespace {

// "relu", "gated-gelu": Transformers' T5Config takes the part behind the last hyphen for the activation.
void read_feed_forward(const Json& json, const std::string& path, T5Config* config) {
  constexpr char kKey[] = "feed_forward_proj", kGated[] = "gated-";
  const std::string value = get_string(json, kKey, path, "relu");
  config->is_gated = value.rfind(kGated, 0) == 0;
  std::string name = config->is_gated ? value.substr(sizeof kGated - 1) : value;
  if (config->is_gated && name == "gelu") name = "gelu_new";  // the class's own exception
  config->activation = activation_of_name(name, kKey, value, path);
}

// Every distance has a bucket: half of them are for exact distances, and the rest reach beyond these.
void check_buckets(const T5Config& config, const std::string& path) {
  const std::int64_t buckets = config.relative_attention_num_buckets, exact = buckets / 2;
  if (buckets < 4 || buckets > kMaxRelativeBuckets)
    refuse_config(path, "relative_attention_num_buckets = " + std::to_string(buckets) + " is out of range",
                  "4 to " + std::to_string(kMaxRelativeBuckets) + " is allowed");
  if (config.relative_attention_max_distance <= exact)
    refuse_config(path,
                  "relative_attention_max_distance = " + std::to_string(config.relative_attention_max_distance) +
                      " must be greater than half of relative_attention_num_buckets = " + std::to_string(buckets));
}

void check_ids(const Json& json, const std::string& path, T5Config* config) {
  config->pad_token_id = get_int(json, "pad_token_id", path, config->pad_token_id);
  check_padding_token(config->pad_token_id, config->vocab_size, path);
  constexpr char kStart[] = "decoder_start_token_id";
  if (find_member(json, kStart, path) == nullptr)
    refuse_config(path, std::string("has no ") + kStart, "T5's is its pad_token_id, 0");
  config->decoder_start_token_id = get_int(json, kStart, path);
  if (config->decoder_start_token_id < 0 || config->decoder_start_token_id >= config->vocab_size)
    refuse_config(path, std::string(kStart) + " = " + std::to_string(config->decoder_start_token_id) +
                            " is outside the vocabulary");
}

// Folders of T5's encoder alone, or of another head, have T5's model_type.
void check_class(const Json& json, const std::string& path) {
  constexpr char kKey[] = "architectures", kClass[] = "T5ForConditionalGeneration";
  const Json* const member = find_member(json, kKey, path);
  if (member == nullptr || member->is_null()) return;
  const std::vector<std::string> classes = get_strings(json, kKey, path);
  const char* const kKnown[] = {kClass, "T5WithLMHeadModel", "T5Model"};
  const bool is_known = std::any_of(classes.begin(), classes.end(), [&](const std::string& name) {
    return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
  });
  if (!classes.empty() && !is_known)
    refuse_config(path, "is of a " + classes.front() + ", which is not supported",
                  std::string("only ") + kClass + " is");
}

}  // namespace

T5Config read_t5_config(const std::string& path) {
  const Json json = read_json_file(path);
  check_class(json, path);
  T5Config config;
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"d_model", &config.d_model},
                       {"d_kv", &config.d_kv},
                       {"d_ff", &config.d_ff},
                       {"num_layers", &config.num_layers},
                       {"num_heads", &config.num_heads},
                       {"relative_attention_num_buckets", &config.relative_attention_num_buckets},
                       {"relative_attention_max_distance", &config.relative_attention_max_distance}});
  const Json* const layers = find_member(json, "num_decoder_layers", path);
  const bool has_own_depth = layers != nullptr && !layers->is_null();
  config.num_decoder_layers =
      has_own_depth ? config_extent(json, "num_decoder_layers", path, config.num_layers) : config.num_layers;
  check_buckets(config, path);
  check_ids(json, path, &config);
  read_feed_forward(json, path, &config);
  config.dropout_rate = config_probability(json, "dropout_rate", path, 0.1);
  config.layer_norm_epsilon = config_epsilon(json, path, 1e-6, "layer_norm_epsilon");
  config.initializer_factor = config_factor(json, "initializer_factor", path, config.initializer_factor);
  config.tie_word_embeddings = get_bool(json, "tie_word_embeddings", path, true);
  // Transformers 5 writes this key. Without it a head that the file ties is a scaled one.
  config.scales_outputs = get_bool(json, "scale_decoder_outputs", path, config.tie_word_embeddings);
  return config;
}

}  // namespace bascule
