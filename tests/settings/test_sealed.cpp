// SPDX-License-Identifier: Apache-2.0
// This program is linked with the source that seal_settings wrote of sealed.toml.
#include <gtest/gtest.h>

#include "src/base/paths.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"
#include "src/settings/write_cpp.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

Settings sealed() {
  return settings_of_run({}, [](const std::string&) { return ModelWords(); });
}

TEST(Sealed, SettingsAreThoseOfTheFile) {
  const Settings read = read_settings(BASCULE_SOURCE_DIR "/tests/settings/sealed.toml",
                                      [](const std::string&) { return sealed().words; });
  const Settings built_in = sealed();
  EXPECT_EQ(print_settings(built_in), print_settings(read));
  EXPECT_EQ(sealed_settings()->toml, print_settings(read));
  EXPECT_EQ(sealed_settings()->digest, settings_digest(read));
  EXPECT_EQ(settings_digest(built_in), settings_digest(read));
  EXPECT_EQ(built_in.training.groups[0].weight_decay, read.training.groups[0].weight_decay);
  EXPECT_EQ(built_in.training.num_train_epochs, read.training.num_train_epochs);
  EXPECT_FALSE(built_in.words.heads.empty());
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

TEST(Sealed, EveryWordOfTheModelIsAssigned) {
  Settings settings = settings_of(kLeast);
  settings.words = {{{"one", false, true, false, {"x"}, true, false, true, false, true},
                     {"two", true, false, true, {}, false, true, false, true, false}},
                    {"part"},
                    {"frozen"},
                    {"idle"},
                    false,
                    "below"};
  const std::string text = settings_as_cpp(settings, "x.toml");
  for (const char* assigned :
       {"heads.push_back({\"one\", false, true, false, {\"x\"}, true, false, true, false, true});",
        "heads.push_back({\"two\", true, false, true, {}, false, true, false, true, false});", "parts = {\"part\"};",
        "frozen = {\"frozen\"};", "idle = {\"idle\"};", "body = \"below\";"})
    EXPECT_NE(text.find(assigned), std::string::npos) << assigned;
}

// A path in place of a word: both are assigned.
TEST(Sealed, TheCheckpointThatSettingsNameIsAssigned) {
  const std::string text =
      settings_as_cpp(settings_of(least_with("training", "resume = \"run/checkpoint-3\"")), "x.toml");
  const std::string word = std::to_string(static_cast<int>(Resume::kCheckpoint));
  EXPECT_NE(text.find("  s.run.resume = static_cast<decltype(s.run.resume)>(" + word + ");\n"), std::string::npos);
  EXPECT_NE(text.find("  s.run.resume_checkpoint.written = \"run/checkpoint-3\";\n"), std::string::npos);
}

TEST(Sealed, TheSourceHasDigitsForAllBytesButPrintableAscii) {
  Settings settings = settings_of(kLeast);
  settings.run.output_dir.written = "caf\xc3\xa9\x01\x7f~ ?";
  const std::string text = settings_as_cpp(settings, "x.toml");
  EXPECT_NE(text.find("\"caf\\303\\251\\001\\177~ \\077\""), std::string::npos);
}

TEST(Sealed, EveryKeyIsAssigned) {
  const std::string text = settings_as_cpp(settings_of(kLeast), "x.toml");
  for (const Key& key : all_keys()) {
    const char* const holder = key.holder != nullptr ? key.holder : key.table;
    const std::string member = std::string("\n  s.") + holder + "." + key.name;
    EXPECT_TRUE(text.find(member + " = ") != std::string::npos ||
                text.find(member + ".written = ") != std::string::npos)
        << member;
  }
}

}  // namespace
}  // namespace bascule
