// SPDX-License-Identifier: Apache-2.0
#include "src/models/vae_config.h"

#include "src/models/config_values.h"

namespace bascule {
namespace {

void refuse_unless(bool holds, const Json& json, const char* key, const std::string& path, const std::string& only) {
  if (holds) return;
  const Json* const member = find_member(json, key, path);
  refuse_config(path, std::string(key) + " = " + json_text(member == nullptr ? Json() : *member) + " is not supported",
                "only " + only + " is");
}

bool is_set(const Json& json, const char* key, const std::string& path) {
  const Json* const member = find_member(json, key, path);
  return member != nullptr && !member->is_null();
}

}  // namespace

VaeConfig read_vae_config(const std::string& path) {
  const Json json = read_json_file(path);
  VaeConfig config;
  read_config_extents(json, path,
                      {{"latent_channels", &config.latent_channels},
                       {"layers_per_block", &config.layers_per_block},
                       {"norm_num_groups", &config.norm_num_groups}});
  for (const char* key : {"shift_factor", "latents_mean", "latents_std"})
    refuse_unless(!is_set(json, key, path), json, key, path, "null");
  for (const char* key : {"use_post_quant_conv", "mid_block_add_attention"})
    refuse_unless(get_bool(json, key, path, true), json, key, path, "true");
  refuse_unless(get_string(json, "act_fn", path, "silu") == "silu", json, "act_fn", path, "\"silu\"");
  refuse_unless(config.latent_channels == 4, json, "latent_channels", path, "4");
  refuse_unless(get_int(json, "out_channels", path, 3) == 3, json, "out_channels", path, "3");
  const std::vector<std::string> blocks = get_strings(json, "up_block_types", path);
  for (const std::string& type : blocks)
    if (type != "UpDecoderBlock2D")
      refuse_config(path, "up_block_types: \"" + type + "\" is not supported", "only UpDecoderBlock2D is");
  constexpr char kChannels[] = "block_out_channels";
  config.block_out_channels = get_ints(json, kChannels, path);
  if (config.block_out_channels.empty() || config.block_out_channels.size() > 8)
    refuse_config(path, std::string(kChannels) + " must have 1 to 8 numbers");
  if (blocks.size() != config.block_out_channels.size())
    refuse_config(path, "up_block_types has " + std::to_string(blocks.size()) + " blocks for " +
                            std::to_string(config.block_out_channels.size()) + " levels");
  for (const std::int64_t channels : config.block_out_channels) {
    if (channels < 1 || channels > 65536 || channels % config.norm_num_groups != 0)
      refuse_config(path, std::string(kChannels) + ": " + std::to_string(channels) +
                              " is not a multiple of norm_num_groups = " + std::to_string(config.norm_num_groups));
  }
  config.scaling_factor = get_number(json, "scaling_factor", path, config.scaling_factor);
  if (!(config.scaling_factor > 0.0 && config.scaling_factor < 1e6))
    refuse_config(path, "scaling_factor = " + json_text(Json(config.scaling_factor)) + " is out of range");
  return config;
}

}  // namespace bascule
