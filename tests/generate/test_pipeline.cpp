// SPDX-License-Identifier: Apache-2.0
// Which folders are pipelines, and what is said of those that are none.
#include "src/generate/pipeline.h"

#include <gtest/gtest.h>

#include "tests/generate/changed_pipeline.h"
#include "tests/support/files.h"

namespace bascule::test {
namespace {

std::string refusal(const ChangedPipeline& pipeline, const std::string& file) {
  const std::string line = error_of([&] {
    const Pipeline opened = open_pipeline(pipeline.folder());
    const PromptTokenizer tokenizer(opened);
  });
  const std::string begin = pipeline.path(file) + ": ";
  EXPECT_EQ(line.rfind(begin, 0), 0u) << line;
  return line.substr(std::min(begin.size(), line.size()));
}

void expect_words(const std::string& line, const std::string& words) {
  EXPECT_NE(line.find(words), std::string::npos) << line;
}

TEST(Pipelines, AreOpenedWithTheirModels) {
  const ChangedPipeline folder("sd_v2");
  const Pipeline pipeline = open_pipeline(folder.folder());
  EXPECT_EQ(pipeline.factor(), 4);
  EXPECT_EQ(pipeline.default_side(), 32);
  EXPECT_EQ(pipeline.prompt_tokens(), 77);
  EXPECT_EQ(pipeline.notes, std::vector<std::string>{});
  EXPECT_STREQ(pipeline.text_encoder.model->architecture(), "CLIPTextModel");
  EXPECT_STREQ(pipeline.noise_predictor.model->architecture(), "UNet2DConditionModel");
  EXPECT_STREQ(pipeline.decoder.model->architecture(), "AutoencoderKL");
  EXPECT_TRUE(is_pipeline_folder(folder.folder()));
  EXPECT_FALSE(is_pipeline_folder(folder.path("unet")));
}

TEST(Pipelines, NoIndexOrOneOfAnotherPipelineIsRefused) {
  const ChangedPipeline folder;
  folder.set("model_index.json", "_class_name", "StableDiffusionXLPipeline");
  expect_words(refusal(folder, "model_index.json"), "is of a StableDiffusionXLPipeline, which is not supported");
  folder.write("model_index.json", "[]");
  expect_words(refusal(folder, "model_index.json"), "is not a JSON object");
  folder.write("model_index.json", "{");
  EXPECT_NE(error_of([&] { open_pipeline(folder.folder()); }).find("model_index.json:1:2: not JSON"),
            std::string::npos);
  folder.remove("model_index.json");
  expect_words(refusal(folder, "model_index.json"), "is missing: the folder holds no pipeline");
}

TEST(Pipelines, EachPartThatTheIndexLacksIsNamed) {
  for (const char* part : {"text_encoder", "unet", "vae", "tokenizer", "scheduler"}) {
    for (const Json& entry : {Json(), Json::array({nullptr, nullptr}), Json("x"), Json::array({"a", "b", "c"})}) {
      const ChangedPipeline folder;
      folder.set("model_index.json", part, entry);
      expect_words(refusal(folder, "model_index.json"), std::string("has no \"") + part + "\"");
    }
  }
}

TEST(Pipelines, EachPartOfAnotherClassIsNamed) {
  for (const auto& [part, other] : {std::pair{"text_encoder", "CLIPTextModelWithProjection"},
                                    {"unet", "UNet3DConditionModel"},
                                    {"vae", "AsymmetricAutoencoderKL"},
                                    {"tokenizer", "T5Tokenizer"}}) {
    const ChangedPipeline folder;
    folder.set("model_index.json", part, Json::array({"library", other}));
    expect_words(refusal(folder, "model_index.json"),
                 std::string("\"") + part + "\" is a " + other + ", which is not supported");
  }
}

TEST(Pipelines, APartWithoutItsFolderOrFilesIsRefused) {
  for (const char* part : {"text_encoder", "unet", "vae"}) {
    const ChangedPipeline folder;
    folder.remove(std::string(part) + "/config.json");
    EXPECT_NE(error_of([&] { open_pipeline(folder.folder()); }).find(part), std::string::npos) << part;
    folder.remove(part);
    EXPECT_NE(error_of([&] { open_pipeline(folder.folder()); }).find(part), std::string::npos) << part;
  }
}

TEST(Pipelines, AFolderWithThePartOfAnotherNameIsRefused) {
  const ChangedPipeline folder;
  folder.rename("unet/config.json", "unet/other.json");
  std::filesystem::copy(folder.path("vae/config.json"), folder.path("unet/config.json"));
  expect_words(refusal(folder, "unet/config.json"), "a AutoencoderKL cannot be the \"unet\" of this pipeline");
}

TEST(Pipelines, PartsThatDoNotFitAreRefused) {
  const ChangedPipeline wide;
  wide.set("unet/config.json", "cross_attention_dim", 32);
  expect_words(refusal(wide, "unet/config.json"), "cross_attention_dim = 32, but the text encoder's hidden_size is 24");
  const ChangedPipeline tokens;
  tokens.set("text_encoder/config.json", "vocab_size", 1513);
  expect_words(refusal(tokens, "tokenizer"), "has 1514 tokens, but the text encoder has only 1513");
}

TEST(Pipelines, InpaintingAndOtherLatentsAreRefused) {
  const ChangedPipeline painting;
  painting.set("unet/config.json", "in_channels", 9);
  expect_words(refusal(painting, "unet/config.json"), "in_channels = 9 and out_channels = 4 are not supported");
  const ChangedPipeline channels;
  channels.set("vae/config.json", "latent_channels", 16);
  expect_words(refusal(channels, "vae/config.json"), "latent_channels = 16 is not supported");
}

TEST(Pipelines, WhatIsLeftAsideIsSaidOnce) {
  const ChangedPipeline folder;
  folder.set("model_index.json", "safety_checker", Json::array({"stable_diffusion", "StableDiffusionSafetyChecker"}));
  folder.set("model_index.json", "feature_extractor", Json::array({"transformers", "CLIPImageProcessor"}));
  const Pipeline pipeline = open_pipeline(folder.folder());
  ASSERT_EQ(pipeline.notes.size(), 1u);
  expect_words(pipeline.notes[0], "safety_checker of the folder is not used");
}

// "diffusion_pytorch_model.fp16.safetensors" counts where there is no other, and only there.
TEST(Pipelines, WeightsOfHalfPrecisionAreFoundByTheirName) {
  const ChangedPipeline folder;
  for (const auto& [part, stem] : {std::pair{"text_encoder/", "model"}, {"unet/", "diffusion_pytorch_model"}}) {
    const std::string whole = part + std::string(stem) + ".safetensors",
                      half = part + std::string(stem) + ".fp16.safetensors";
    std::filesystem::copy(folder.path(whole), folder.path(half));
    const auto stem_of_part = [part = part](const Pipeline& pipeline) {
      return std::string(part == std::string("unet/") ? pipeline.noise_predictor.stem.safetensors
                                                      : pipeline.text_encoder.stem.safetensors);
    };
    EXPECT_EQ(stem_of_part(open_pipeline(folder.folder())), stem);
    folder.remove(whole);
    EXPECT_EQ(stem_of_part(open_pipeline(folder.folder())), std::string(stem) + ".fp16");
  }
}

TEST(Pipelines, SidesAreMultiplesOfEightAndOfTheFactor) {
  Pipeline pipeline = open_pipeline(ChangedPipeline().folder());  // a factor of 2
  for (const std::int64_t side : {8, 16, 512, 8192}) EXPECT_NO_THROW(check_picture_side(pipeline, side, "w", "k"));
  const auto line = [&](std::int64_t side) {
    return error_of([&] { check_picture_side(pipeline, side, "w", "k"); }, ErrorKind::kSettings);
  };
  EXPECT_EQ(line(12), "w: k = 12 is not a multiple of 8; the nearest ones are 8 and 16");
  EXPECT_EQ(line(4), "w: k = 4 is not a multiple of 8; the smallest one is 8");
  pipeline.vae.block_out_channels.resize(5, 8);
  EXPECT_NO_THROW(check_picture_side(pipeline, 32, "w", "k"));
  EXPECT_NE(line(24).find("not a multiple of 16"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test
