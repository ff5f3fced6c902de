// SPDX-License-Identifier: Apache-2.0
// The documents of `bascule settings` without a settings file.
#include "src/commands/commands.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "src/commands/command_line.h"
#include "src/json/json.h"

namespace bascule {
namespace {

Json document(bool resume) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(settings_command({}, resume, true, false), 0);
  return parse_json(testing::internal::GetCapturedStdout(), "standard output");
}

TEST(SettingsCommand, JsonWithoutAFileHasEveryKeyAndNoValue) {
  const Json reference = document(false), resume = document(true);
  ASSERT_GT(resume["keys"].size(), 100u);
  EXPECT_EQ(reference["keys"][std::size_t{0}]["key"], "model.model_name_or_path");
  for (const Json& key : resume["keys"]) {
    EXPECT_TRUE(key.contains("may_change") && key.contains("meaning")) << json_text(key);
    EXPECT_FALSE(key.contains("value")) << json_text(key);
  }
  for (const Json& key : reference["keys"]) EXPECT_TRUE(key.contains("default")) << json_text(key);
}

TEST(CommandLine, IntegersHaveALeastAndAMost) {
  for (const auto& [text, is_taken] : std::initializer_list<std::pair<const char*, bool>>{
           {"1", true}, {"3", true}, {"0", false}, {"4", false}, {"0x2", false}, {"2 ", false}}) {
    CLI::App program;
    std::int64_t number = 0;
    as_integer(program.add_option("--number", number), 1, 3);
    std::vector<std::string> words = {text, "--number"};  // as CLI11 wants them
    if (is_taken)
      EXPECT_NO_THROW(program.parse(words)) << text;
    else
      EXPECT_THROW(program.parse(words), CLI::Error) << text;
  }
}

}  // namespace
}  // namespace bascule
