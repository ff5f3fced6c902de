// SPDX-License-Identifier: Apache-2.0
// config.json of a pipeline's three models: what is read, with which defaults, and each key that is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "src/json/json.h"
#include "src/models/families.h"
#include "src/models/pipeline_configs.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

const std::string kUnet =
    R"({"_class_name": "UNet2DConditionModel", "block_out_channels": [32, 64], "norm_num_groups": 8,
        "attention_head_dim": 4, "cross_attention_dim": 24, "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"]})";
const std::string kVae =
    R"({"_class_name": "AutoencoderKL", "block_out_channels": [8, 16, 16], "norm_num_groups": 4,
        "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"]})";
const std::string kText = R"({"model_type": "clip_text_model"})";

class PipelineConfigs : public ::testing::Test {
 protected:
  std::string with(const std::string& config, const std::string& key, const std::string& value) {
    Json json = parse_json(config, "config");
    json[key] = parse_json(value, "value");
    return folder_.write("config.json", json_text(json));
  }
  // The problem that is found when `key` has this value.
  template <typename Read>
  std::string refusal(Read read, const std::string& config, const std::string& key, const std::string& value) {
    const std::string path = with(config, key, value);
    const std::string line = error_of([&] { read(path); }), begin = path + ": ";
    EXPECT_EQ(line.rfind(begin, 0), 0u) << line;
    return line.substr(std::min(begin.size(), line.size()));
  }
  template <typename Read>
  void expect_refused(Read read, const std::string& config,
                      const std::vector<std::tuple<const char*, const char*, const char*>>& values) {
    for (const auto& [key, value, words] : values) {
      const std::string line = refusal(read, config, key, value);
      EXPECT_NE(line.find(key), std::string::npos) << line;
      EXPECT_NE(line.find(words), std::string::npos) << line;
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(PipelineConfigs, TheUnetHasTheDefaultsOfDiffusers) {
  const UnetConfig config = read_unet_config(folder_.write("config.json", kUnet));
  ASSERT_EQ(config.levels.size(), 2u);
  EXPECT_EQ(config.levels[1].channels, 64);
  EXPECT_EQ(config.levels[1].heads, 4) << "the key is the number of heads";
  EXPECT_TRUE(config.levels[0].attends);
  EXPECT_FALSE(config.levels[1].attends);
  EXPECT_EQ(config.up_attends, (std::vector<bool>{false, true}));
  EXPECT_EQ(config.layers_per_block, 2);
  EXPECT_EQ(config.sample_size, 0);
  EXPECT_EQ(config.time_width(), 32);
  EXPECT_TRUE(config.flip_sin_to_cos);
  EXPECT_EQ(config.freq_shift, 0);
  EXPECT_FALSE(config.use_linear_projection);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5f);
}

TEST_F(PipelineConfigs, HeadsMayDifferByLevelAndHaveAKeyOfTheirOwn) {
  EXPECT_EQ(read_unet_config(with(kUnet, "attention_head_dim", "[2, 8]")).levels[1].heads, 8);
  EXPECT_EQ(read_unet_config(with(kUnet, "num_attention_heads", "16")).levels[0].heads, 16);
  EXPECT_EQ(read_unet_config(with(kUnet, "num_attention_heads", "null")).levels[0].heads, 4);
}

TEST_F(PipelineConfigs, EachKeyOfAUnetThatIsNotComputedIsRefused) {
  expect_refused(read_unet_config, kUnet,
                 {{"class_embed_type", "\"timestep\"", "reads more than a text and a timestep"},
                  {"addition_embed_type", "\"text_time\"", "is not supported"},
                  {"encoder_hid_dim", "1024", "is not supported"},
                  {"encoder_hid_dim_type", "\"text_proj\"", "is not supported"},
                  {"num_class_embeds", "1000", "is not supported"},
                  {"time_cond_proj_dim", "256", "is not supported"},
                  {"time_embedding_dim", "64", "is not supported"},
                  {"time_embedding_act_fn", "\"gelu\"", "is not supported"},
                  {"timestep_post_act", "\"silu\"", "is not supported"},
                  {"cross_attention_norm", "\"layer_norm\"", "is not supported"},
                  {"reverse_transformer_layers_per_block", "[1, 1]", "is not supported"},
                  {"dual_cross_attention", "true", "only false is"},
                  {"only_cross_attention", "true", "only false is"},
                  {"only_cross_attention", "[false, true]", "only false is"},
                  {"mid_block_only_cross_attention", "true", "only false is"},
                  {"class_embeddings_concat", "true", "only false is"},
                  {"resnet_skip_time_act", "true", "only false is"},
                  {"center_input_sample", "true", "only false is"},
                  {"resnet_time_scale_shift", "\"scale_shift\"", "only \"default\" is"},
                  {"time_embedding_type", "\"fourier\"", "only \"positional\" is"},
                  {"attention_type", "\"gated\"", "only \"default\" is"},
                  {"act_fn", "\"gelu\"", "only \"silu\" is"},
                  {"mid_block_type", "\"UNetMidBlock2D\"", "only \"UNetMidBlock2DCrossAttn\" is"},
                  {"resnet_out_scale_factor", "0.5", "is not supported"},
                  {"mid_block_scale_factor", "2", "only 1 is"},
                  {"downsample_padding", "0", "only 1 is"},
                  {"conv_in_kernel", "5", "only 3 is"},
                  {"conv_out_kernel", "1", "only 3 is"},
                  {"transformer_layers_per_block", "2", "only 1 is"},
                  {"transformer_layers_per_block", "[1, 10]", "only 1 is"},
                  {"in_channels", "9", "models that fill in parts of a picture"},
                  {"out_channels", "8", "only 4 is"}});
}

TEST_F(PipelineConfigs, AUnetOfWhichNoModelCanBeMadeIsRefused) {
  expect_refused(
      read_unet_config, kUnet,
      {{"block_out_channels", "[]", "must have 1 to 8 numbers"},
       {"block_out_channels", "[32, 60]", "60 is not a multiple of norm_num_groups = 8"},
       {"block_out_channels", "[32, -64]", ""},
       {"block_out_channels", "32", ""},
       {"attention_head_dim", "[2]", "has 1 numbers for 2 levels"},
       {"attention_head_dim", "5", "5 heads do not divide 32 channels"},
       {"attention_head_dim", "0", "out of range"},
       {"attention_head_dim", "[4, 0]", "heads do not divide"},
       {"down_block_types", "[\"DownBlock2D\", \"DownBlock2D\", \"DownBlock2D\"]", "has 3 blocks for 2 levels"},
       {"down_block_types", "[\"CrossAttnDownBlock2D\"]", "has 1 blocks for 2 levels"},
       {"down_block_types", "[\"AttnDownBlock2D\", \"DownBlock2D\"]", "\"AttnDownBlock2D\" is not supported"},
       {"up_block_types", "[\"UpBlock2D\", \"DownBlock2D\"]", "\"DownBlock2D\" is not supported"},
       {"up_block_types", "null", ""},
       {"norm_num_groups", "0", "out of range"},
       {"norm_eps", "0", "out of range"},
       {"layers_per_block", "0", "out of range"},
       {"layers_per_block", "[1, 2]", "a list"},
       {"cross_attention_dim", "[24, 24]", "a list"},
       {"sample_size", "0", "out of range"},
       {"freq_shift", "16", "out of range"},
       {"freq_shift", "-1", "out of range"}});
  Json json = parse_json(kUnet, "config");
  json["norm_num_groups"] = 5;
  json["block_out_channels"] = Json::array({15, 20});
  json["attention_head_dim"] = 5;
  EXPECT_NE(error_of([&] {
              read_unet_config(folder_.write("config.json", json_text(json)));
            }).find("block_out_channels begins with an odd number"),
            std::string::npos);
}

TEST_F(PipelineConfigs, TheDecoderHasTheDefaultsOfDiffusers) {
  const VaeConfig config = read_vae_config(folder_.write("config.json", kVae));
  EXPECT_EQ(config.factor(), 4);
  EXPECT_EQ(config.scaling_factor, 0.18215);
  EXPECT_EQ(config.layers_per_block, 1);
  EXPECT_EQ(read_vae_config(with(kVae, "scaling_factor", "0.13025")).scaling_factor, 0.13025);
}

TEST_F(PipelineConfigs, EachKeyOfADecoderThatIsNotComputedIsRefused) {
  expect_refused(read_vae_config, kVae,
                 {{"shift_factor", "0.1159", "only null is"},
                  {"latents_mean", "[0.0, 0.0, 0.0, 0.0]", "only null is"},
                  {"latents_std", "[1.0, 1.0, 1.0, 1.0]", "only null is"},
                  {"use_post_quant_conv", "false", "only true is"},
                  {"mid_block_add_attention", "false", "only true is"},
                  {"act_fn", "\"relu\"", "only \"silu\" is"},
                  {"latent_channels", "16", "only 4 is"},
                  {"out_channels", "1", "only 3 is"},
                  {"up_block_types", "[\"AttnUpDecoderBlock2D\"]", "\"AttnUpDecoderBlock2D\" is not supported"},
                  {"up_block_types", "[\"UpDecoderBlock2D\"]", "has 1 blocks for 3 levels"},
                  {"block_out_channels", "[]", "must have 1 to 8 numbers"},
                  {"block_out_channels", "[8, 16, 18]", "18 is not a multiple of norm_num_groups = 4"},
                  {"block_out_channels", "[8, 16, 0]", "0 is not a multiple"},
                  {"scaling_factor", "0", "out of range"},
                  {"scaling_factor", "-0.2", "out of range"}});
}

TEST_F(PipelineConfigs, TheTextEncoderHasTheDefaultsOfTransformers) {
  const ClipTextConfig config = read_clip_text_config(folder_.write("config.json", kText));
  EXPECT_EQ(config.hidden_size, 512);
  EXPECT_EQ(config.vocab_size, 49408);
  EXPECT_EQ(config.max_position_embeddings, 77);
  EXPECT_EQ(config.hidden_act, Activation::kQuickGelu);
  EXPECT_EQ(read_clip_text_config(with(kText, "hidden_act", "\"gelu\"")).hidden_act, Activation::kGelu);
  EXPECT_EQ(read_clip_text_config(with(kText, "use_attention_mask", "false")).hidden_size, 512);
  EXPECT_EQ(read_clip_text_config(with(kText, "eos_token_id", "2")).vocab_size, 49408) << "wrong in old files, unused";
  expect_refused(read_clip_text_config, kText,
                 {{"hidden_act", "\"mish\"", "is not supported"},
                  {"use_attention_mask", "true", "is not supported"},
                  {"num_attention_heads", "7", "is not a multiple of"},
                  {"hidden_size", "0", "out of range"},
                  {"vocab_size", "-1", "out of range"},
                  {"layer_norm_eps", "1", "out of range"}});
}

// A part of a pipeline is found as such, and refused in one line where a model to train is meant.
TEST_F(PipelineConfigs, PartsAreNoModelsToTrain) {
  for (const auto& [config, type] :
       {std::pair{kUnet, "UNet2DConditionModel"}, {kVae, "AutoencoderKL"}, {kText, "clip_text_model"}}) {
    const std::string path = folder_.write("config.json", config);
    EXPECT_STREQ(family_of_part(path).model_type, type);
    const std::string line = error_of([&] { family_of(path); });
    EXPECT_EQ(line.rfind(path + ": a " + type + " is a part of a pipeline and cannot be trained; only \"", 0), 0u)
        << line;
    EXPECT_NE(line.find("`bascule draw` takes the pipeline's folder"), std::string::npos) << line;
  }
  EXPECT_STREQ(family_of_part(folder_.write("config.json", R"({"model_type": "vit"})")).model_type, "vit");
  EXPECT_NE(error_of([&] {
              family_of_part(folder_.write("config.json", R"({"_class_name": "UNet1DModel"})"));
            }).find("UNet1DModel"),
            std::string::npos);
}

}  // namespace
}  // namespace bascule::test
