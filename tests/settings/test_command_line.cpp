// SPDX-License-Identifier: Apache-2.0
// What tools/settings_from_command_line.py makes of published command lines is a settings file.
#include <cstdio>
#include <filesystem>
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

TEST(SettingsFromCommandLine, PublishedCommandsBecomeFilesThatAreRead) {
  const std::string root = BASCULE_SOURCE_DIR;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/tests/tools/command_lines")) {
    SCOPED_TRACE(entry.path().string());
    bool ended_well = false;
    const std::string text = output_of("'" BASCULE_PYTHON "' '" + root + "/tools/settings_from_command_line.py' < '" +
                                           entry.path().string() + "' 2> /dev/null",
                                       &ended_well);
    ASSERT_TRUE(ended_well);
    ASSERT_EQ(refusal_of(text), "");
    const Settings settings = settings_of(text);
    EXPECT_EQ(settings.model.precision, Precision::kBf16);
    EXPECT_EQ(settings.training.learning_rate, 1e-5);
    EXPECT_EQ(settings.training.adam_epsilon, 1e-6);
    EXPECT_EQ(settings.training.num_train_epochs, 5.0);
    EXPECT_EQ(settings.distributed.world_size, 8);
    EXPECT_EQ(settings.data.test_file.text(), "data/newyorker_caption_contest-matching/test.jsonl");
    ++files;
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace bascule
