// SPDX-License-Identifier: Apache-2.0
// The files in config/, and what this build refuses.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/settings/read_text.h"

namespace bascule {
namespace {

std::vector<std::string> config_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(BASCULE_CONFIG_DIR)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Config, EveryFileIsReadAndThisBuildCanDoWhatItSays) {
  const std::vector<std::string> files = config_files();
  EXPECT_GE(files.size(), 6U);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    try {
      // Those of pipelines that draw begin with "sd_".
      const bool draws = std::filesystem::path(file).filename().string().rfind("sd_", 0) == 0;
      const Settings settings = read_settings(file, [&](const std::string& folder) {
        ModelWords words = test_words(folder);
        words.draws = draws;
        return words;
      });
      refuse_unsupported(settings);
      EXPECT_EQ(settings.draw.is_given, draws);
      if (draws) continue;
      EXPECT_TRUE(settings.training.do_train);
      const bool paced = settings.machine.step_seconds > 0.0;  // measures, learns nothing
      // Fresh weights of published size learn nothing either; their rows are written into the model's folder.
      const bool timed =
          settings.data.train_file.written.front().rfind(settings.model.model_name_or_path.written, 0) == 0;
      EXPECT_TRUE(paced || timed || (settings.training.do_eval && settings.training.do_predict));
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Config, TheDemosNameFilesThatABareCloneHas) {
  for (const char* name : {"demo", "smoke", "demo_matching", "demo_masked_lm", "vit_demo", "vit_demo_pooled",
                           "bert_demo", "bert_sentences_demo", "bert_embeddings_demo", "t5_demo"}) {
    const Settings s = read_settings(std::string(BASCULE_CONFIG_DIR) + "/" + name + ".toml", test_words);
    if (std::string(name) != "demo_matching") {  // it starts from what the demo leaves
      EXPECT_TRUE(std::filesystem::exists(s.model.model_name_or_path.resolved + "/config.json")) << name;
      const bool reads_texts = std::string(name).rfind("vit_", 0) != 0;
      const std::map<std::string, std::string> others = {{"bert_demo", "/vocab.txt"},
                                                         {"bert_sentences_demo", "/vocab.txt"},
                                                         {"bert_embeddings_demo", "/vocab.txt"},
                                                         {"t5_demo", "/spiece.model"}};
      const auto other = others.find(name);
      const std::string vocabulary = other == others.end() ? "/vocab.json" : other->second;
      EXPECT_EQ(std::filesystem::exists(s.model.tokenizer_name.resolved + vocabulary), reads_texts) << name;
    }
    for (const PathsSetting& file : {s.data.train_file, s.data.validation_file, s.data.test_file,
                                     s.data.validation_corpus, s.data.validation_queries, s.data.validation_relevance,
                                     s.data.test_corpus, s.data.test_queries, s.data.test_relevance}) {
      EXPECT_TRUE(std::filesystem::exists(file.start + "/" + file.text())) << file.text();
    }
  }
}

TEST(RefuseUnsupported, NamesTheKeyAndItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"distributed", "world_size = 513"},
  };
  for (const auto& [table, line] : cases) {
    const Settings settings = settings_of(least_with(table, line));
    try {
      refuse_unsupported(settings);
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kSettings);
      EXPECT_EQ(error.where().find("test.toml:"), 0U) << error.what();
    }
  }
  EXPECT_NO_THROW(refuse_unsupported(settings_of(kLeast)));
}

TEST(RefuseUnsupported, MicroBatchesWhereGradientsLeaveBucketByBucket) {
  for (const int stage : {1, 2, 3}) {
    std::string text =
        least_with("distributed", "distribution_strategy = \"sharded\"\nsharded_stage = " + std::to_string(stage));
    EXPECT_NO_THROW(refuse_unsupported(settings_of(text)));
    const std::string table = "[training]\n";
    text.insert(text.find(table) + table.size(), "gradient_accumulation_steps = 2\n");
    if (stage == 1) {
      EXPECT_NO_THROW(refuse_unsupported(settings_of(text)));
    } else {
      EXPECT_THROW(refuse_unsupported(settings_of(text)), Error);
    }
  }
}

}  // namespace
}  // namespace bascule
