// SPDX-License-Identifier: Apache-2.0
// tools/settings_from_command_line.py makes settings files of published command lines.
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/settings/read_text.h"

namespace bascule {
namespace {

// Standard output of a shell command, and whether it ended well.
std::string output_of(const std::string& command, bool* ended_well) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char block[4096];
  for (std::size_t size = 0; (size = std::fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, size);
  *ended_well = pclose(pipe) == 0;
  return text;
}

struct Recipe {
  Precision precision;
  double learning_rate, adam_epsilon, epochs;
  std::int64_t world_size;
  std::string train_file;
};

const std::string kNewYorker = "data/newyorker_caption_contest-matching/train.jsonl";
const std::string kWikiText = "data/wikitext-wikitext-2-raw-v1/train.txt";
const std::string kDailyMail = "data/cnn_dailymail-3.0.0/train.jsonl";
const std::map<std::string, Recipe> kRecipes = {
    {"blog.sh", {Precision::kBf16, 1e-5, 1e-6, 5.0, 8, kNewYorker}},
    {"blog_fast.sh", {Precision::kBf16, 1e-5, 1e-6, 5.0, 8, kNewYorker}},
    {"readme.sh", {Precision::kBf16, 1e-5, 1e-6, 5.0, 8, kNewYorker}},
    {"image_classification.sh", {Precision::kFloat32, 2e-5, 1e-8, 5.0, 1, "data/beans/train.jsonl"}},
    {"image_classification_gaudi.sh", {Precision::kBf16, 2e-4, 1e-6, 5.0, 8, "data/cifar10/train.jsonl"}},
    {"mlm.sh", {Precision::kFloat32, 5e-5, 1e-8, 3.0, 1, kWikiText}},
    {"mlm_gaudi.sh", {Precision::kBf16, 5e-5, 1e-6, 3.0, 8, kWikiText}},
    {"summarization.sh", {Precision::kFloat32, 5e-5, 1e-8, 3.0, 1, kDailyMail}},
    {"summarization_gaudi.sh", {Precision::kFloat32, 5e-5, 1e-6, 3.0, 8, kDailyMail}},
};

const std::string kCommandLines = std::string(BASCULE_SOURCE_DIR) + "/tests/tools/command_lines/";

// The settings file that the tool makes of a published command line.
std::string file_of(const std::string& command_line) {
  const std::string tool = std::string(BASCULE_SOURCE_DIR) + "/tools/settings_from_command_line.py";
  bool ended_well = false;
  const std::string text =
      output_of("'" BASCULE_PYTHON "' '" + tool + "' < '" + command_line + "' 2> /dev/null", &ended_well);
  EXPECT_TRUE(ended_well);
  return text;
}

bool draws(const std::filesystem::path& command_line) {
  return command_line.filename().string().rfind("text_to_image", 0) == 0;
}

ModelWords words_of_a_pipeline(const std::string&) {
  ModelWords words;
  words.draws = true;
  return words;
}

TEST(SettingsFromCommandLine, PublishedCommandsBecomeFilesThatAreRead) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCommandLines)) {
    if (draws(entry.path())) continue;
    SCOPED_TRACE(entry.path().string());
    const std::string text = file_of(entry.path().string());
    ASSERT_EQ(refusal_of(text), "");
    const Settings settings = settings_of(text);
    const Recipe& recipe = kRecipes.at(entry.path().filename().string());
    EXPECT_EQ(settings.model.precision, recipe.precision);
    EXPECT_EQ(settings.training.learning_rate, recipe.learning_rate);
    EXPECT_EQ(settings.training.adam_epsilon, recipe.adam_epsilon);
    EXPECT_EQ(settings.training.num_train_epochs, recipe.epochs);
    EXPECT_EQ(settings.distributed.world_size, recipe.world_size);
    EXPECT_EQ(settings.data.train_file.text(), recipe.train_file);
    ++files;
  }
  EXPECT_EQ(files, kRecipes.size());
}

TEST(SettingsFromCommandLine, PublishedCommandsThatDrawBecomeFilesThatAreRead) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCommandLines)) {
    if (!draws(entry.path())) continue;
    SCOPED_TRACE(entry.path().string());
    const Settings settings =
        read_settings_text(file_of(entry.path().string()), "test.toml", "/place", words_of_a_pipeline);
    EXPECT_TRUE(settings.draw.is_given);
    EXPECT_NO_THROW(refuse_unsupported(settings));
    ++files;
  }
  EXPECT_EQ(files, 2U);
}

// But for the script's default of timestep_spacing, which is younger than the command, and for the size, which the file
// writes out: that of the model.
TEST(SettingsFromCommandLine, ThePublishedCommandThatDrawsGivesThePublishedSettings) {
  const DrawSettings made =
      read_settings_text(file_of(kCommandLines + "text_to_image.sh"), "test.toml", "/place", words_of_a_pipeline).draw;
  const DrawSettings ours = read_settings(std::string(BASCULE_CONFIG_DIR) + "/sd_v1.toml", words_of_a_pipeline).draw;
  EXPECT_EQ(made.prompts, ours.prompts);
  EXPECT_EQ(made.negative_prompt, ours.negative_prompt);
  EXPECT_EQ(made.num_images_per_prompt, ours.num_images_per_prompt);
  EXPECT_EQ(made.batch_size, ours.batch_size);
  EXPECT_EQ(made.num_inference_steps, ours.num_inference_steps);
  EXPECT_EQ(made.guidance_scale, ours.guidance_scale);
  EXPECT_EQ(made.scheduler, ours.scheduler);
  EXPECT_EQ(made.throughput_warmup_batches, ours.throughput_warmup_batches);
  EXPECT_EQ(made.timestep_spacing, "linspace");
  EXPECT_EQ(made.height, 0);
}

}  // namespace
}  // namespace bascule
