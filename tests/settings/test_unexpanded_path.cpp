// SPDX-License-Identifier: Apache-2.0
#include "src/settings/absolute_paths.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "tests/settings/read_text.h"

namespace bascule {
namespace {

TEST(UnexpandedPath, IsFoundWhereAShellWouldReplaceIt) {
  for (const auto& [path, part] :
       std::initializer_list<std::pair<const char*, const char*>>{{"~", "~"},
                                                                  {"~/data/a.jsonl", "~"},
                                                                  {"~anna/data", "~anna"},
                                                                  {"$HOME/data", "$HOME"},
                                                                  {"data/${SPLIT}/a.jsonl", "${SPLIT}"},
                                                                  {"a$1/$_b", "$_b"},
                                                                  {"$DISK2/a", "$DISK2"},
                                                                  {"${2}/${DISK_2}/a", "${DISK_2}"}}) {
    EXPECT_EQ(unexpanded_part(path), part) << path;
  }
}

TEST(UnexpandedPath, OtherNamesAreLeftAlone) {
  for (const char* path : {"", "data/~", "./~anna", "a~", "price$", "5$/a", "$1", "shard-{000..127}.tar", "${}"}) {
    EXPECT_EQ(unexpanded_part(path), "") << path;
  }
  EXPECT_EQ(unexpanded_part(std::string_view("price$HERE").substr(0, 6)), "") << "what lies behind a path is not read";
}

TEST(UnexpandedPath, IsRefusedInEveryPathOfASettingsFile) {
  EXPECT_EQ(refusal_of(least_with("data", "validation_file = '~/here'")),
            "test.toml:4:19: data.validation_file = \"~/here\": \"~\" is not expanded: only a shell does that; write "
            "the full path");
  for (const auto& [table, key] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model", "tokenizer_name"}, {"data", "test_file"}, {"distributed", "hostfile"}}) {
    const std::string line = refusal_of(least_with(table, std::string(key) + " = 'a/$HERE'"));
    EXPECT_NE(line.find("\"$HERE\" is not expanded"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace bascule
