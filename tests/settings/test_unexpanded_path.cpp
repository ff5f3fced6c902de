// SPDX-License-Identifier: Apache-2.0
#include "src/settings/absolute_paths.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// A run is repeated from anywhere; the tokenizer of a pipeline and of a served model is where the model says.
TEST(AbsolutePaths, OnlyTheTokenizerOfARunThatTrainsIsNamed) {
  const std::string model = "[model]\nmodel_name_or_path = \"sd-m\"\n", own = "tokenizer_name = \"own\"\n";
  const std::string draw = "[draw]\nprompts = [\"a\"]\noutput_dir = \"o\"\n", serve = "[serve]\n";
  const auto tokenizer_of = [](const std::string& text) {
    return with_absolute_paths(settings_of(text)).model.tokenizer_name.written;
  };
  EXPECT_EQ(tokenizer_of(kLeast), "/place/m");
  EXPECT_EQ(tokenizer_of(least_with("model", own)), "/place/own");
  EXPECT_EQ(tokenizer_of(model + draw), "");
  EXPECT_EQ(tokenizer_of(model + own + draw), "/place/own");
  EXPECT_EQ(tokenizer_of("[model]\nmodel_name_or_path = \"bert-m\"\n" + serve), "");
  EXPECT_EQ(tokenizer_of("[model]\nmodel_name_or_path = \"bert-m\"\n" + own + serve), "/place/own");
  EXPECT_EQ(tokenizer_of(kLeast + serve), "/place/m") << "it trains, too";
}

TEST(AbsolutePaths, APathThatWasNotResolvedStaysAsItWasWritten) {
  Settings settings = settings_of(kLeast);
  settings.model.tokenizer_name.written = "/kept";
  settings.model.tokenizer_name.resolved = "";
  settings.report.tracking_dir.written = "t";
  settings.report.tracking_dir.resolved = "/place/t";
  const Settings absolute = with_absolute_paths(settings);
  EXPECT_EQ(absolute.model.tokenizer_name.written, "/kept");
  EXPECT_EQ(absolute.model.tokenizer_name.resolved, "/kept");
  EXPECT_EQ(absolute.report.tracking_dir.written, "/place/t");
  EXPECT_EQ(absolute.draw.prompts_file.written, "") << "not given";
}

TEST(AbsolutePaths, NoOtherKeyHasAnotherValue) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : absolute_path_values(settings_of(kLeast))) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, (std::vector<std::string>{"data.train_file", "model.model_name_or_path", "model.tokenizer_name",
                                            "training.output_dir"}));
}

TEST(AbsolutePaths, OfDataAreThoseOfEachPart) {
  PathsSetting paths;
  paths.start = "/a";
  EXPECT_EQ(absolute_data_path(paths, "classes/"), "/a/classes");
  EXPECT_EQ(absolute_data_path(paths, "../b.tar,,/c/d.tar"), "/b.tar,,/c/d.tar");
  paths.stays_inside = true;
  EXPECT_EQ(absolute_data_path(paths, "../b.jsonl"), "/a/b.jsonl");
  for (const char* const start : {"/a{1}", "/a,b"}) {
    paths.start = start;
    EXPECT_NE(data_path_problem(paths, "b.tar").what, "") << start;
    EXPECT_EQ(data_path_problem(paths, "b.jsonl").what, "") << start;
  }
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
