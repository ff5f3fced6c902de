// SPDX-License-Identifier: Apache-2.0
#include "src/models/clip_text_config.h"

#include "src/models/config_values.h"

namespace bascule {

ClipTextConfig read_clip_text_config(const std::string& path) {
  const Json json = read_json_file(path);
  ClipTextConfig config;
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"hidden_size", &config.hidden_size},
                       {"intermediate_size", &config.intermediate_size},
                       {"num_hidden_layers", &config.num_hidden_layers},
                       {"num_attention_heads", &config.num_attention_heads},
                       {"max_position_embeddings", &config.max_position_embeddings}});
  if (config.max_position_embeddings < 2)
    refuse_config(path, "max_position_embeddings = 1 leaves no room for a prompt between its special tokens");
  // Diffusers would hide the padding of a prompt from the text encoder; without the key it has no mask.
  if (get_bool(json, "use_attention_mask", path, false))
    refuse_config(path, "use_attention_mask = true is not supported");
  check_width_of_heads(config.hidden_size, config.num_attention_heads, path);
  const std::string activation = get_string(json, "hidden_act", path, "quick_gelu");
  config.hidden_act = activation_of_name(activation, "hidden_act", activation, path);
  config.layer_norm_eps = config_epsilon(json, path, 1e-5);
  return config;
}

}  // namespace bascule
