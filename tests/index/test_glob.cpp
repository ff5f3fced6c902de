// SPDX-License-Identifier: Apache-2.0
#include "src/index/glob.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using Paths = std::vector<std::string>;
using test::TemporaryFolder;

// Each as Python's fnmatch has it.
TEST(Glob, MatchesOnePartOfAPath) {
  for (const auto& [pattern, name] :
       std::initializer_list<std::pair<const char*, const char*>>{{"*", "a"},
                                                                  {"**", "a"},
                                                                  {"a*c", "ac"},
                                                                  {"a*c", "abcbc"},
                                                                  {"*a*b", "xaxbab"},
                                                                  {"?", "a"},
                                                                  {"?", "é"},
                                                                  {"a?", "a\xFF"},
                                                                  {"[a-c]x", "bx"},
                                                                  {"[!a-c]x", "dx"},
                                                                  {"[]x]", "]"},
                                                                  {"[!]x]", "a"},
                                                                  {"[a-]", "-"},
                                                                  {"[", "["},
                                                                  {"a[b", "a[b"},
                                                                  {"[[]", "["},
                                                                  {"[é-ü]", "ö"},
                                                                  {"x[--0]", "x."},
                                                                  {".*", ".hidden"},
                                                                  {"part-[0-9][0-9].csv", "part-07.csv"},
                                                                  {"[a-c-e]", "-"},
                                                                  {"[^a]", "^"},
                                                                  {"*.jsonl", "é.jsonl"},
                                                                  {"a\\*", "a\\b"}}) {
    EXPECT_TRUE(matches_glob(pattern, name)) << pattern << " " << name;
  }
  for (const auto& [pattern, name] : std::initializer_list<std::pair<const char*, const char*>>{{"a*c", "acb"},
                                                                                                {"?", ""},
                                                                                                {"?", "ab"},
                                                                                                {"a?", "aé\xFF"},
                                                                                                {"[a-c]x", "dx"},
                                                                                                {"[!a-c]x", "bx"},
                                                                                                {"[]x]", "a"},
                                                                                                {"[!]x]", "]"},
                                                                                                {"[c-a]", "b"},
                                                                                                {"*", ".hidden"},
                                                                                                {"?hidden", ".hidden"},
                                                                                                {"[.]a", ".a"},
                                                                                                {"[a-c-e]", "d"},
                                                                                                {"[^a]", "b"},
                                                                                                {"*.json", "a.jsonl"},
                                                                                                {"A*", "a"},
                                                                                                {"[!", "a"}}) {
    EXPECT_FALSE(matches_glob(pattern, name)) << pattern << " " << name;
  }
}

// Some stars of a pattern that matches nothing must not take time that grows as a power of the name.
TEST(Glob, TakesNoLongerForMoreStars) {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "a*";
  EXPECT_FALSE(matches_glob(pattern + "b", std::string(250, 'a')));
}

struct GlobFolders : testing::Test {
  TemporaryFolder folder;
  GlobFolders() {
    for (const char* name : {"b", "a", "a-b", ".hidden", "empty"})
      std::filesystem::create_directory(folder.path() + "/" + name);
    for (const char* name :
         {"b/2.csv", "b/10.csv", "a/1.csv", "a-b/1.csv", ".hidden/1.csv", "1.csv", ".2.csv", "x[1].csv"})
      folder.write(name, "");
  }
  Paths found(const std::string& pattern) {
    Paths paths = expand_glob(pattern, folder.path());
    for (std::string& path : paths) path = std::filesystem::path(path).lexically_relative(folder.path()).string();
    return paths;
  }
};

TEST_F(GlobFolders, GiveTheirMatchesSortedByBytes) {
  EXPECT_EQ(found("*/*.csv"), (Paths{"a-b/1.csv", "a/1.csv", "b/10.csv", "b/2.csv"}));
  EXPECT_EQ(found("*.csv"), (Paths{"1.csv", "x[1].csv"}));
  EXPECT_EQ(found(".*.csv"), Paths{".2.csv"});
  EXPECT_EQ(found("?/2.csv"), Paths{"b/2.csv"});
  EXPECT_EQ(found("a/../b/2*"), Paths{"b/2.csv"});
  EXPECT_EQ(found("./*/../b/2*"), Paths{"b/2.csv"});
  EXPECT_EQ(found("x[[]1].csv"), Paths{"x[1].csv"});
  EXPECT_EQ(found("[!e]*/"), (Paths{"a", "a-b", "b"}));
  EXPECT_EQ(found("1*/"), Paths{});
  EXPECT_EQ(found("*.csv/*"), Paths{});
  EXPECT_EQ(found("nowhere/*"), Paths{});
  EXPECT_EQ(expand_glob(folder.path() + "/b/*2.csv", "/nowhere"), Paths{folder.path() + "/b/2.csv"});
}

TEST_F(GlobFolders, MayHaveSignsInTheNamesOfWhereTheyStart) {
  const std::string start = folder.path() + "/[a]*";
  std::filesystem::create_directory(start);
  folder.write("[a]*/1.csv", "");
  EXPECT_EQ(expand_glob("*.csv", start), Paths{start + "/1.csv"});
  EXPECT_EQ(expand_glob("../b/*.csv", start), (Paths{folder.path() + "/b/10.csv", folder.path() + "/b/2.csv"}));
}

TEST_F(GlobFolders, DoNotGoIntoFoldersOfEveryDepth) {
  try {
    expand_glob("data/**/a.csv", folder.path());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSettings);
    EXPECT_EQ(error.where(), "data/**/a.csv");
  }
}

}  // namespace
}  // namespace bascule
