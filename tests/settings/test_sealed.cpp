// SPDX-License-Identifier: Apache-2.0
// This program is linked with the source that seal_settings wrote of sealed.toml.
#include <gtest/gtest.h>

#include "src/base/paths.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/resume_rules.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

Settings sealed() { return settings_of_run({}, test_words); }

TEST(Sealed, SettingsAreThoseOfTheFile) {
  const Settings read = read_settings(BASCULE_SOURCE_DIR "/tests/settings/sealed.toml", test_words);
  const Settings built_in = sealed();
  EXPECT_EQ(print_settings(built_in), print_settings(read));
  EXPECT_EQ(sealed_settings()->toml, print_settings(read));
  EXPECT_EQ(sealed_settings()->digest, settings_digest(read));
  EXPECT_EQ(settings_digest(built_in), settings_digest(read));
  EXPECT_EQ(built_in.training.groups[0].weight_decay, read.training.groups[0].weight_decay);
  EXPECT_EQ(built_in.training.num_train_epochs, read.training.num_train_epochs);
  EXPECT_EQ(built_in.training.do_train, read.training.do_train);
  EXPECT_EQ(built_in.training.eval_strategy, read.training.eval_strategy);
}

TEST(Sealed, TheWordsAreThoseOfTheModelInTheTree) {
  std::string asked;
  const Settings settings = settings_of_run({}, [&](const std::string& folder) {
    asked = folder;
    ModelWords words = test_words();
    words.body = "below";
    return words;
  });
  EXPECT_EQ(asked, settings.model.model_name_or_path.resolved);
  EXPECT_EQ(settings.words.heads.size(), test_words().heads.size());
  EXPECT_EQ(settings.model.tokenizer_name.resolved, asked + "/below");
}

TEST(Sealed, AnErrorNamesTheLineOfTheFile) {
  EXPECT_EQ(where_written(sealed(), "data.max_seq_length"), "tests/settings/sealed.toml:11:18");
  EXPECT_EQ(where_written(sealed(), "data.ring_slots"), "tests/settings/sealed.toml");
}

TEST(Sealed, PathsStartAboveTheFolderOfTheProgram) {
  const std::string above = tree_of_program();
  const Settings settings = sealed();
  EXPECT_EQ(settings.model.model_name_or_path.resolved, above + "/model \"one\"\\\xc3\xa9\x01 ??");
  EXPECT_EQ(settings.model.tokenizer_name.resolved, settings.model.model_name_or_path.resolved);
  EXPECT_EQ(settings.run.resume_checkpoint.resolved, above + "/run/checkpoint-3");
  EXPECT_EQ(settings.run.output_dir.resolved, "/var/run one");
  EXPECT_EQ(settings.data.train_file.start, above);
  EXPECT_TRUE(settings.data.train_file.stays_inside);
}

TEST(Sealed, TheSourceHasDigitsForAllBytesButPrintableAscii) {
  const std::string text = sealed_source(settings_of(kLeast), "caf\xc3\xa9\x01\x7f~ ?");
  EXPECT_NE(text.find("\"caf\\303\\251\\001\\177~ \\077\""), std::string::npos);
}

TEST(Sealed, TheSourceHasEveryKey) {
  const Settings settings = settings_of(kLeast);
  const std::string text = sealed_source(settings, "x.toml");
  for (const auto& [key, value] : printed_keys(settings)) {
    const std::string name = key.substr(key.rfind('.') + 1);
    EXPECT_NE(text.find("\n    \"" + name + " = "), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace bascule
