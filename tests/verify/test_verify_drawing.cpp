// SPDX-License-Identifier: Apache-2.0
// Reference cases of pipelines: one that differs in one place fails, and says where. That both pass with every
// instruction set: tests/faults/test_verify.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "src/verify/verify.h"
#include "tests/support/files.h"
#include "tests/verify/changed_case.h"

namespace bascule::test {
namespace {

const std::string kExpected = "expected.safetensors", kBatch = "batch.safetensors";

std::string drawing_case(const std::string& name) { return "../goldens-families/" + name; }

// Turns over bits of the first byte of a tensor.
void flip(const ChangedCase& changed, const std::string& file, const std::string& tensor, char bits,
          std::size_t byte = 0) {
  const std::string path = changed.folder() + "/" + file;
  std::string bytes = read_file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const Json entries = parse_json(std::string_view(bytes).substr(sizeof header, header), path);
  const std::size_t begin = static_cast<std::size_t>(entries[tensor]["data_offsets"][0].integer());
  char& place = bytes.at(sizeof header + header + begin + byte);
  place = static_cast<char>(place ^ bits);
  std::ofstream(path, std::ios::binary) << bytes;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name) > 0;
}

TEST(VerifyDrawing, JudgesEveryModelEverySamplerAndEveryTensorOfTheCase) {
  const ChangedCase changed(drawing_case("sd_v2"));
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_TRUE(result.passed());
  std::vector<std::string> names;
  for (const VerifiedTensor& tensor : result.tensors) names.push_back(tensor.name);
  const TensorSource expected = open_safetensors(changed.folder() + "/" + kExpected);
  for (const StoredTensor& tensor : expected.tensors()) {
    const auto is_of_it = [&](const std::string& name) { return name.substr(0, name.find(" (")) == tensor.name; };
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), is_of_it)) << tensor.name;
  }
  EXPECT_TRUE(contains(names, "prompt_ids") && contains(names, "negative_ids"));
}

TEST(VerifyDrawing, OneChangedWeightOfEachModelFails) {
  // The exponent of a bfloat16: another value by a factor of two at least.
  ChangedCase text(drawing_case("sd_v1")), unet(drawing_case("sd_v1")), vae(drawing_case("sd_v1"));
  flip(text, "text_encoder/model.safetensors", "text_model.final_layer_norm.weight", 1, 1);
  flip(unet, "unet/diffusion_pytorch_model.safetensors",
       "mid_block.attentions.0.transformer_blocks.0.attn2.to_v.weight", 1, 1);
  flip(vae, "vae/diffusion_pytorch_model.safetensors", "decoder.conv_out.bias", 1, 1);
  const std::vector<std::string> of_text = text.failed(), of_unet = unet.failed(), of_vae = vae.failed();
  EXPECT_TRUE(contains(of_text, "text_embeddings"));
  EXPECT_TRUE(contains(of_text, "unet_output"));
  EXPECT_FALSE(contains(of_text, "vae_picture"));
  EXPECT_FALSE(contains(of_unet, "text_embeddings"));
  EXPECT_TRUE(contains(of_unet, "unet_output"));
  EXPECT_TRUE(contains(of_unet, "pndm.latents"));
  EXPECT_FALSE(contains(of_vae, "unet_output"));
  EXPECT_TRUE(contains(of_vae, "vae_picture"));
  EXPECT_TRUE(contains(of_vae, "ddim.picture"));
  EXPECT_FALSE(contains(of_vae, "ddim.latents"));
}

TEST(VerifyDrawing, OneChangedTensorFailsAlone) {
  for (const char* name : {"text_embeddings", "unet_output", "vae_picture", "pndm.latents", "euler.picture"}) {
    ChangedCase changed(drawing_case("sd_v1"));
    changed.scale(kExpected, name, 1, 1.5f);
    EXPECT_EQ(changed.failed(), std::vector<std::string>{name});
  }
  ChangedCase steps(drawing_case("sd_v1"));
  steps.scale(kExpected, "euler.timesteps", 2, 1.00001f);
  EXPECT_EQ(steps.failed(), std::vector<std::string>{"euler.timesteps"});
  ChangedCase bytes(drawing_case("sd_v1"));
  flip(bytes, kExpected, "ddim.bytes", 2);
  EXPECT_EQ(bytes.failed(), std::vector<std::string>{"ddim.bytes (largest difference)"});
  ChangedCase ids(drawing_case("sd_v1"));
  ids.describe([](Json* description) { (*description)["prompts"][1] = "A red heart, on a white wall"; });
  EXPECT_EQ(ids.failed(), std::vector<std::string>{"prompt_ids"});
}

TEST(VerifyDrawing, AnotherSchedulerFails) {
  const std::pair<const char*, Json> kMembers[] = {{"beta_end", 0.0121},
                                                   {"beta_schedule", "linear"},
                                                   {"prediction_type", "v_prediction"},
                                                   {"timestep_spacing", "trailing"},
                                                   {"_class_name", "DDIMScheduler"}};
  for (const auto& [key, value] : kMembers) {
    ChangedCase changed(drawing_case("sd_v1"));
    changed.describe(
        [&, key = key, value = value](Json* description) { (*description)["schedulers"]["pndm"][key] = value; });
    const std::vector<std::string> failed = changed.failed();
    EXPECT_TRUE(contains(failed, "pndm.latents")) << key;
    EXPECT_FALSE(contains(failed, "ddim.latents")) << key;
  }
  ChangedCase guidance(drawing_case("sd_v1"));
  guidance.describe([](Json* description) { (*description)["guidance_scale"] = 7.0; });
  EXPECT_TRUE(contains(guidance.failed(), "euler.latents"));
}

TEST(VerifyDrawing, ATensorThatNobodyComputesFails) {
  ChangedCase changed(drawing_case("sd_v1"));
  changed.add(kExpected, "heun.latents", {1, 2, 3});
  EXPECT_EQ(changed.failed(), std::vector<std::string>{"heun.latents (not computed)"});
}

TEST(VerifyDrawing, ATensorThatIsMissingIsNamed) {
  for (const char* name : {"text_embeddings", "ddim.bytes", "euler.timesteps"}) {
    ChangedCase changed(drawing_case("sd_v1"));
    changed.remove(kExpected, [&](const std::string& tensor) { return tensor == name; });
    EXPECT_NE(error_of([&] { changed.failed(); }).find(name), std::string::npos) << name;
  }
  for (const char* name : {"batch0.prompt_ids", "batch0.latents", "batch0.vae_latents", "batch0.unet_sample"}) {
    ChangedCase changed(drawing_case("sd_v1"));
    changed.remove(kBatch, [&](const std::string& tensor) { return tensor == name; });
    EXPECT_NE(error_of([&] { changed.failed(); }).find(name), std::string::npos) << name;
  }
}

TEST(VerifyDrawing, NumbersThatDoNotFitAreRefused) {
  const auto refusal = [](const std::string& key, const Json& value, ErrorKind kind = ErrorKind::kData) {
    ChangedCase changed(drawing_case("sd_v1"));
    changed.describe([&](Json* description) { (*description)[key] = value; });
    return test::error_of([&] { changed.failed(); }, kind);
  };
  EXPECT_NE(refusal("height", 20, ErrorKind::kSettings).find("height = 20 is not a multiple of 8"), std::string::npos);
  EXPECT_NE(refusal("height", 24).find("latents"), std::string::npos);
  EXPECT_NE(refusal("num_inference_steps", 0).find("step"), std::string::npos);
  EXPECT_NE(refusal("schedulers", Json::array({1})).find("schedulers"), std::string::npos);
  EXPECT_NE(refusal("timestep", "x").find("timestep"), std::string::npos);
}

// Angles of everything but bytes, each within twice torch's or 0.0005.
TEST(VerifyDrawing, Bf16JudgesAnglesOfEveryStage) {
  for (const char* name : {"sd_v1", "sd_v2"}) {
    const ChangedCase changed(drawing_case(name));
    const VerifiedCase result = changed.verify(Precision::kBf16);
    EXPECT_EQ(failures(result), std::vector<std::string>{}) << name;
    std::vector<std::string> angles;
    for (const VerifiedTensor& tensor : result.tensors) {
      if (tensor.measure != Measure::kOneMinusCosine) continue;
      angles.push_back(tensor.name);
      EXPECT_EQ(tensor.limit, std::max(2.0 * tensor.reference, 0.0005)) << tensor.name;
      EXPECT_GT(tensor.error, 1e-7) << tensor.name << ": as in float32";
      EXPECT_EQ(tensor.reference > 0.0, tensor.name.find('.') == std::string::npos) << tensor.name;
    }
    for (const char* stage : {"text_embeddings", "unet_output", "vae_picture", "ddim.latents", "ddim.picture"})
      EXPECT_TRUE(contains(angles, stage)) << stage;
    std::vector<std::string> left_out;
    for (const NotCompared& tensor : result.not_compared) left_out.push_back(tensor.name);
    EXPECT_TRUE(contains(left_out, "ddim.bytes"));
  }
}

TEST(VerifyDrawing, Bf16FailsWhereOneTensorDiffers) {
  ChangedCase changed(drawing_case("sd_v1"));
  flip(changed, "unet/diffusion_pytorch_model.safetensors", "conv_norm_out.weight", 2, 1);
  const std::vector<std::string> failed = failures(changed.verify(Precision::kBf16));
  EXPECT_TRUE(contains(failed, "unet_output"));
  EXPECT_FALSE(contains(failed, "text_embeddings"));
}

}  // namespace
}  // namespace bascule::test
