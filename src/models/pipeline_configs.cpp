// SPDX-License-Identifier: Apache-2.0
#include "src/models/pipeline_configs.h"

#include <algorithm>

#include "src/models/config_values.h"

namespace bascule {
namespace {

// Keys that change the model, with the one value of each that is computed: as JSON, null for a key that is not set.
struct FixedKey {
  const char* key;
  Json value;
};

bool is_absent(const Json* member) { return member == nullptr || member->is_null(); }

void refuse_other_values(const Json& json, const std::string& path) {
  const FixedKey kFixed[] = {{"class_embed_type", nullptr},
                             {"addition_embed_type", nullptr},
                             {"encoder_hid_dim", nullptr},
                             {"encoder_hid_dim_type", nullptr},
                             {"num_class_embeds", nullptr},
                             {"time_cond_proj_dim", nullptr},
                             {"time_embedding_dim", nullptr},
                             {"time_embedding_act_fn", nullptr},
                             {"timestep_post_act", nullptr},
                             {"cross_attention_norm", nullptr},
                             {"reverse_transformer_layers_per_block", nullptr},
                             {"dual_cross_attention", false},
                             {"only_cross_attention", false},
                             {"mid_block_only_cross_attention", false},
                             {"class_embeddings_concat", false},
                             {"resnet_skip_time_act", false},
                             {"center_input_sample", false},
                             {"resnet_time_scale_shift", "default"},
                             {"time_embedding_type", "positional"},
                             {"attention_type", "default"},
                             {"act_fn", "silu"},
                             {"mid_block_type", "UNetMidBlock2DCrossAttn"},
                             {"resnet_out_scale_factor", 1.0},
                             {"mid_block_scale_factor", 1},
                             {"downsample_padding", 1},
                             {"conv_in_kernel", 3},
                             {"conv_out_kernel", 3},
                             {"transformer_layers_per_block", 1}};
  for (const auto& [key, value] : kFixed) {
    const Json* const member = find_member(json, key, path);
    if (is_absent(member)) continue;
    // Some keys have one value for each level.
    const bool is_the_one =
        member->is_array()
            ? std::all_of(member->begin(), member->end(), [&value = value](const Json& each) { return each == value; })
            : *member == value;
    if (is_the_one) continue;
    refuse_config(
        path, std::string(key) + " = " + json_text(*member) + " is not supported",
        value.is_null() ? "such a UNet reads more than a text and a timestep" : "only " + json_text(value) + " is");
  }
}

// One number, or one for each level.
std::vector<std::int64_t> by_level(const Json& json, const char* key, const std::string& path, std::size_t levels) {
  const Json* const member = find_member(json, key, path);
  if (!is_absent(member) && member->is_array()) {
    std::vector<std::int64_t> values = get_ints(json, key, path);
    if (values.size() != levels)
      refuse_config(path, std::string(key) + " has " + std::to_string(values.size()) + " numbers for " +
                              std::to_string(levels) + " levels");
    return values;
  }
  return std::vector<std::int64_t>(levels, config_extent(json, key, path, 8));
}

// Whether the blocks of these types have transformers.
std::vector<bool> attends(const Json& json, const char* key, const std::string& with, const std::string& without,
                          const std::string& path, std::size_t levels) {
  std::vector<bool> result;
  for (const std::string& type : get_strings(json, key, path)) {
    if (type != with && type != without)
      refuse_config(path, std::string(key) + ": \"" + type + "\" is not supported", "only " + with + " and " + without);
    result.push_back(type == with);
  }
  if (result.size() != levels)
    refuse_config(path, std::string(key) + " has " + std::to_string(result.size()) + " blocks for " +
                            std::to_string(levels) + " levels");
  return result;
}

std::vector<std::int64_t> channels_of(const Json& json, const std::string& path, std::int64_t groups) {
  constexpr char kChannels[] = "block_out_channels";
  std::vector<std::int64_t> all = get_ints(json, kChannels, path);
  if (all.empty() || all.size() > 8) refuse_config(path, std::string(kChannels) + " must have 1 to 8 numbers");
  for (const std::int64_t channels : all) {
    if (channels < 1 || channels > 65536 || channels % groups != 0)
      refuse_config(path, std::string(kChannels) + ": " + std::to_string(channels) +
                              " is not a multiple of norm_num_groups = " + std::to_string(groups));
  }
  return all;
}

void read_levels(const Json& json, const std::string& path, UnetConfig* config) {
  const std::vector<std::int64_t> channels = channels_of(json, path, config->norm_num_groups);
  const std::size_t levels = channels.size();
  // Diffusers takes the number of heads from the key that says their width.
  const bool has_heads = !is_absent(find_member(json, "num_attention_heads", path));
  const char* const heads_key = has_heads ? "num_attention_heads" : "attention_head_dim";
  const std::vector<std::int64_t> heads = by_level(json, heads_key, path, levels);
  const std::vector<bool> down = attends(json, "down_block_types", "CrossAttnDownBlock2D", "DownBlock2D", path, levels);
  config->up_attends = attends(json, "up_block_types", "CrossAttnUpBlock2D", "UpBlock2D", path, levels);
  for (std::size_t i = 0; i < levels; ++i) {
    const bool attends_at_all = down[i] || config->up_attends[levels - 1 - i] || i + 1 == levels;
    if (heads[i] < 1 || (attends_at_all && channels[i] % heads[i] != 0))
      refuse_config(path,
                    std::string(heads_key) + ": " + std::to_string(heads[i]) + " heads do not divide " +
                        std::to_string(channels[i]) + " channels",
                    "the key is the number of heads");
    config->levels.push_back({channels[i], heads[i], down[i]});
  }
}

}  // namespace

UnetConfig read_unet_config(const std::string& path) {
  const Json json = read_json_file(path);
  refuse_other_values(json, path);
  UnetConfig config;
  read_config_extents(json, path,
                      {{"in_channels", &config.in_channels},
                       {"out_channels", &config.out_channels},
                       {"layers_per_block", &config.layers_per_block},
                       {"norm_num_groups", &config.norm_num_groups},
                       {"cross_attention_dim", &config.cross_attention_dim}});
  if (config.in_channels != 4 || config.out_channels != 4)
    refuse_config(path,
                  "in_channels = " + std::to_string(config.in_channels) +
                      " and out_channels = " + std::to_string(config.out_channels) + " are not supported",
                  "only 4 is: models that fill in parts of a picture, or read its depth, are not");
  if (!is_absent(find_member(json, "sample_size", path)))
    config.sample_size = config_extent(json, "sample_size", path, 64);
  read_levels(json, path, &config);
  config.norm_eps = config_epsilon(json, path, 1e-5, "norm_eps");
  config.use_linear_projection = get_bool(json, "use_linear_projection", path, false);
  config.flip_sin_to_cos = get_bool(json, "flip_sin_to_cos", path, true);
  config.freq_shift = get_int(json, "freq_shift", path, 0);
  if (config.time_width() % 2 != 0) refuse_config(path, "block_out_channels begins with an odd number");
  if (config.freq_shift < 0 || config.freq_shift >= config.time_width() / 2)
    refuse_config(path, "freq_shift = " + std::to_string(config.freq_shift) + " is out of range");
  return config;
}

namespace {

void refuse_unless(bool holds, const Json& json, const char* key, const std::string& path, const std::string& only) {
  if (holds) return;
  const Json* const member = find_member(json, key, path);
  refuse_config(path, std::string(key) + " = " + json_text(member == nullptr ? Json() : *member) + " is not supported",
                "only " + only + " is");
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
    refuse_unless(is_absent(find_member(json, key, path)), json, key, path, "null");
  for (const char* key : {"use_post_quant_conv", "mid_block_add_attention"})
    refuse_unless(get_bool(json, key, path, true), json, key, path, "true");
  refuse_unless(get_string(json, "act_fn", path, "silu") == "silu", json, "act_fn", path, "\"silu\"");
  refuse_unless(config.latent_channels == 4, json, "latent_channels", path, "4");
  refuse_unless(get_int(json, "out_channels", path, 3) == 3, json, "out_channels", path, "3");
  const std::vector<std::string> blocks = get_strings(json, "up_block_types", path);
  for (const std::string& type : blocks)
    if (type != "UpDecoderBlock2D")
      refuse_config(path, "up_block_types: \"" + type + "\" is not supported", "only UpDecoderBlock2D is");
  config.block_out_channels = channels_of(json, path, config.norm_num_groups);
  if (blocks.size() != config.block_out_channels.size())
    refuse_config(path, "up_block_types has " + std::to_string(blocks.size()) + " blocks for " +
                            std::to_string(config.block_out_channels.size()) + " levels");
  config.scaling_factor = get_number(json, "scaling_factor", path, config.scaling_factor);
  if (!(config.scaling_factor > 0.0 && config.scaling_factor < 1e6))
    refuse_config(path, "scaling_factor = " + json_text(Json(config.scaling_factor)) + " is out of range");
  return config;
}

}  // namespace bascule
