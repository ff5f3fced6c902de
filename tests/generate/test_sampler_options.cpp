// SPDX-License-Identifier: Apache-2.0
// What a folder's scheduler_config.json means, for its own class and for another that is asked for.
#include "src/generate/samplers.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// The file of the published 1.x models: it has no timestep_spacing and no prediction_type.
constexpr char kPublished[] =
    R"({"_class_name": "PNDMScheduler", "beta_end": 0.012, "beta_schedule": "scaled_linear", "beta_start": 0.00085,
        "num_train_timesteps": 1000, "set_alpha_to_one": false, "skip_prk_steps": true, "steps_offset": 1,
        "trained_betas": null, "clip_sample": false})";

SamplerOptions read_options(const std::string& text, const std::string& wanted = "default",
                            const std::string& spacing = "") {
  return sampler_options_of(parse_json(text, "file"), "file", wanted, spacing);
}

// Of the published file with one key more, or another value of it.
std::string refusal(const std::string& key, const std::string& value, const std::string& wanted = "default",
                    ErrorKind kind = ErrorKind::kData) {
  return error_of(
      [&] {
        Json config = parse_json(kPublished, "published");
        config[key] = parse_json(value, "value");
        sampler_options_of(config, "file", wanted);
      },
      kind);
}

TEST(SamplerOptions, TheClassOfTheFileIsTheDefault) {
  const SamplerOptions options = read_options(kPublished);
  EXPECT_STREQ(options.sampler->name, "pndm");
  EXPECT_EQ(options.training_steps, 1000);
  EXPECT_EQ(options.beta_start, 0.00085);
  EXPECT_EQ(options.beta_end, 0.012);
  EXPECT_EQ(options.beta_schedule, BetaSchedule::kScaledLinear);
  EXPECT_EQ(options.prediction, Prediction::kNoise);
  EXPECT_EQ(options.spacing, TimestepSpacing::kLeading);
  EXPECT_FALSE(options.is_final_alpha_one);
  EXPECT_STREQ(read_options(R"({"_class_name": "DDIMScheduler"})").sampler->name, "ddim");
  EXPECT_STREQ(read_options(R"({"_class_name": "EulerDiscreteScheduler"})").sampler->name, "euler");
}

// Keys that the file lacks have the defaults of the class asked for, not of the file's.
TEST(SamplerOptions, AnotherSamplerKeepsOnlyTheKeysThatTheFileHolds) {
  EXPECT_EQ(read_options(kPublished, "euler").spacing, TimestepSpacing::kLinspace);
  EXPECT_EQ(read_options(kPublished, "ddim").spacing, TimestepSpacing::kLeading);
  EXPECT_FALSE(read_options(kPublished, "ddim").is_final_alpha_one);
  EXPECT_EQ(read_options(kPublished, "euler").beta_end, 0.012);
  const std::string bare = R"({"_class_name": "EulerDiscreteScheduler", "skip_prk_steps": true})";
  EXPECT_TRUE(read_options(bare, "ddim").is_final_alpha_one);
  EXPECT_FALSE(read_options(bare, "pndm").is_final_alpha_one);
  EXPECT_EQ(read_options(bare, "ddim").spacing, TimestepSpacing::kLeading);
  EXPECT_EQ(read_options(bare, "pndm").spacing, TimestepSpacing::kLeading);
}

TEST(SamplerOptions, MissingKeysHaveDiffusersDefaults) {
  for (const char* const wanted : {"ddim", "euler"}) {
    const SamplerOptions options = read_options("{}", wanted);
    EXPECT_EQ(options.training_steps, 1000);
    EXPECT_EQ(options.beta_start, 0.0001);
    EXPECT_EQ(options.beta_end, 0.02);
    EXPECT_EQ(options.beta_schedule, BetaSchedule::kLinear);
    EXPECT_EQ(options.prediction, Prediction::kNoise);
  }
}

TEST(SamplerOptions, TheSpacingAskedForCountsBeforeThatOfTheFile) {
  const std::string text = R"({"_class_name": "DDIMScheduler", "timestep_spacing": "trailing"})";
  EXPECT_EQ(read_options(text).spacing, TimestepSpacing::kTrailing);
  EXPECT_EQ(read_options(text, "default", "linspace").spacing, TimestepSpacing::kLinspace);
  EXPECT_EQ(read_options(text, "euler", "leading").spacing, TimestepSpacing::kLeading);
  EXPECT_EQ(error_of([&] { read_options(text, "default", "karras"); }, ErrorKind::kSettings),
            "timestep_spacing: \"karras\" is not supported; use \"leading\", \"linspace\" or \"trailing\"");
}

TEST(SamplerOptions, TheOffsetIsOneAndNothingIsClippedWhateverTheFileSays) {
  const SamplerOptions options = read_options(
      R"({"_class_name": "DDIMScheduler", "steps_offset": 0, "clip_sample": true, "clip_sample_range": 1.0})");
  EXPECT_EQ(options.steps_offset, 1);
}

TEST(SamplerOptions, AFileIsReadByItsPath) {
  const TemporaryFolder folder;
  const std::string path = folder.write("scheduler_config.json", kPublished);
  EXPECT_STREQ(read_sampler_options(path, "euler", "trailing").sampler->name, "euler");
  EXPECT_NE(error_of([&] { read_sampler_options(folder.path() + "/absent.json"); }), "no error");
  const std::string list = folder.write("list.json", "[1]");
  EXPECT_NE(error_of([&] { read_sampler_options(list); }).find("list.json: is not a JSON object"), std::string::npos);
}

TEST(SamplerOptions, OptionsThatNoSamplerHasAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"trained_betas", "[0.1,0.2]"},          {"thresholding", "true"},
      {"rescale_betas_zero_snr", "true"},      {"use_karras_sigmas", "true"},
      {"use_exponential_sigmas", "true"},      {"use_beta_sigmas", "true"},
      {"final_sigmas_type", "\"sigma_min\""},  {"timestep_type", "\"continuous\""},
      {"interpolation_type", "\"log_linear\""}};
  for (const auto& [key, value] : refused) {
    for (const char* const wanted : {"default", "ddim", "pndm", "euler"}) {
      const std::string expected = "file: " + key + " = " + value + " is not supported; remove the key, or set it to ";
      EXPECT_EQ(refusal(key, value, wanted).substr(0, expected.size()), expected);
    }
  }
  EXPECT_EQ(refusal("thresholding", "false"), "no error");
  EXPECT_EQ(refusal("thresholding", "null"), "no error");
  EXPECT_EQ(refusal("final_sigmas_type", "\"zero\""), "no error");
}

TEST(SamplerOptions, RungeKuttaStepsAreRefused) {
  EXPECT_EQ(refusal("skip_prk_steps", "false"),
            "file: skip_prk_steps = false is not supported; set it to true, or choose another scheduler");
  EXPECT_EQ(refusal("skip_prk_steps", "null"),
            "file: skip_prk_steps = false, the default of PNDMScheduler, is not supported; set it to true, or choose "
            "another scheduler");
  EXPECT_EQ(refusal("skip_prk_steps", "false", "ddim"), "no error");
}

TEST(SamplerOptions, UnknownNamesAreRefused) {
  EXPECT_EQ(refusal("_class_name", "\"LMSDiscreteScheduler\""),
            "file: _class_name = \"LMSDiscreteScheduler\" is not supported; set scheduler to \"ddim\", \"pndm\" or "
            "\"euler\"");
  EXPECT_EQ(refusal("_class_name", "\"LMSDiscreteScheduler\"", "euler"), "no error");
  EXPECT_NE(refusal("_class_name", "null").find("_class_name"), std::string::npos);
  EXPECT_EQ(refusal("steps_offset", "1", "dpm", ErrorKind::kSettings),
            "scheduler: \"dpm\" is unknown; use \"default\", \"ddim\", \"pndm\" or \"euler\"");
  EXPECT_EQ(refusal("beta_schedule", "\"squaredcos_cap_v2\""),
            "file: beta_schedule = \"squaredcos_cap_v2\" is not supported; use \"linear\" or \"scaled_linear\"");
  EXPECT_EQ(refusal("prediction_type", "\"sample\""),
            "file: prediction_type = \"sample\" is not supported; use \"epsilon\" or \"v_prediction\"");
  EXPECT_EQ(refusal("timestep_spacing", "\"even\""),
            "file: timestep_spacing = \"even\" is not supported; use \"leading\", \"linspace\" or \"trailing\"");
}

TEST(SamplerOptions, NumbersOutsideTheirRangeAreRefused) {
  EXPECT_EQ(refusal("num_train_timesteps", "1"), "file: num_train_timesteps = 1 is not between 2 and 100000");
  EXPECT_EQ(refusal("num_train_timesteps", "100001"), "file: num_train_timesteps = 100001 is not between 2 and 100000");
  EXPECT_NE(refusal("num_train_timesteps", "1000.5").find("num_train_timesteps"), std::string::npos);
  for (const char* const key : {"beta_start", "beta_end"}) {
    for (const char* const value : {"0.0", "1.0", "-0.1"})
      EXPECT_EQ(refusal(key, value), std::string("file: ") + key + " = " + value + " is not between 0 and 1");
  }
  EXPECT_EQ(refusal("beta_end", "0.5"),
            "file: the betas leave nothing of a picture at the last timestep; check beta_start, beta_end and "
            "num_train_timesteps");
  EXPECT_NE(refusal("set_alpha_to_one", "1").find("set_alpha_to_one"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test
