// SPDX-License-Identifier: Apache-2.0
#include "src/index/glob.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/paths.h"

namespace bascule {
namespace {

using Names = std::vector<std::string>;

TEST(ShardNames, AreWhatTheBracesStandFor) {
  EXPECT_EQ(expand_shards("a.tar"), Names{"a.tar"});
  EXPECT_EQ(expand_shards("s-{8..11}.tar"), (Names{"s-8.tar", "s-9.tar", "s-10.tar", "s-11.tar"}));
  EXPECT_EQ(expand_shards("s-{08..11}.tar"), (Names{"s-08.tar", "s-09.tar", "s-10.tar", "s-11.tar"}));
  EXPECT_EQ(expand_shards("s-{000..2}.tar"), (Names{"s-000.tar", "s-001.tar", "s-002.tar"}));
  EXPECT_EQ(expand_shards("{0..1}/{a,b}.tar"), (Names{"0/a.tar", "0/b.tar", "1/a.tar", "1/b.tar"}));
  EXPECT_EQ(expand_shards("x.tar,y{a,b{1..2}}.tar"), (Names{"x.tar", "ya.tar", "yb1.tar", "yb2.tar"}));
  EXPECT_EQ(expand_shards("shard-{000..127}.tar").size(), 128u);
}

TEST(ShardNames, AreRefusedWhereTheyCannotBeMeant) {
  for (const auto& [bad, reason] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{0..1.tar", "a { without a }"},
           {"0..1}.tar", "a } without a {"},
           {"}{.tar", "a { without a }"},
           {"}{0..1}.tar", "a } without a {"},
           {"{0..1}}.tar", "a } without a {"},
           {"{3..1}.tar", "the range {3..1} counts down"},
           {"{a..b}.tar", "\"a\" is not a number of a range"},
           {"{0..}.tar", "\"\" is not a number of a range"},
           {"{a}.tar", "{a} is neither a range a..b nor a list a,b"},
           {"{}.tar", "{} is neither a range"},
           {"{0..10..2}.tar", "\"10..2\" is not a number of a range"},
           {"{0..100000}.tar", "more than "},
           {"a{0..59999}.tar,b{0..59999}.tar", "more than "},
           {"{0..999}{0..999}.tar", "more than "},
           {"{{0..999},{0..999}}{0..999}.tar", "more than "},
           {"{9999999999..9999999999}.tar", "\"9999999999\" is not a number of a range"},
           {"a.tar,a.tar", "\"a.tar\" is named twice"},
           {"a.tar,,b.tar", "\"\" does not end with .tar"},
           {"a,b.tar", "\"a\" does not end with .tar"},
           {"{-1..2}.tar", "\"-1\" is not a number of a range"}}) {
    try {
      expand_shards(bad);
      ADD_FAILURE() << "taken: " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kSettings) << bad;
      EXPECT_EQ(error.where(), bad);
      EXPECT_NE(error.problem().find(reason), std::string::npos) << bad << ": " << error.problem();
    }
  }
  EXPECT_THROW(expand_shards(std::string(1000, '{') + std::string(1000, '}') + ".tar"), Error);
}

TEST(ShardNames, EndWithTar) {
  EXPECT_TRUE(names_shards("a/{0..1}.tar"));
  EXPECT_FALSE(names_shards("a.jsonl"));
  EXPECT_FALSE(names_shards("a.tar.gz"));
  EXPECT_FALSE(names_shards(".tar"));
}

}  // namespace
}  // namespace bascule
