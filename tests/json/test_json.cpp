// SPDX-License-Identifier: Apache-2.0
#include "src/json/json.h"

#include <functional>
#include <limits>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::error_of;

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_json(text, "a.json"); });
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Json kDocument = parse_json(
    R"({"int": -3, "big": 18446744073709551615, "real": 2.5, "yes": true, "text": "é", "null": null,
        "object": {"a": {}}, "ints": [1, 2], "mixed": [1, "x"]})",
    "a.json");

TEST(Json, ReadsWhatItWrites) { EXPECT_EQ(parse_json(json_text(kDocument, 2), "again"), kDocument); }

TEST(Json, SyntaxErrorsNameFileLineAndColumn) {
  const std::string text = "{\n  \"a\": 1,\n  \"b\" 2\n}";
  EXPECT_TRUE(contains(parse_error(text), "a.json:3:7: not JSON")) << parse_error(text);
  const std::string in_manifest = error_of([] { parse_json("{\"a\": tru}", "rows.jsonl", 17); });
  EXPECT_TRUE(contains(in_manifest, "rows.jsonl:17:10: ")) << in_manifest;
}

TEST(Json, RefusesWhatIsNotStrictJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\": NaN}", "{\"a\": Infinity}", "1e999", "{'a': 1}", "{} {}",
                           "\"\xff\"", "\"\xed\xa0\x80\"", "{\"\xc0\xaf\": 1}"}) {
    EXPECT_TRUE(contains(parse_error(text), "not JSON")) << text << ": " << parse_error(text);
  }
}

TEST(Json, AZeroByteIsNotTheEndOfADocument) {
  for (const char* rest : {"", "rubbish", " "}) {
    const std::string problem = parse_error("{\"a\":\n1}" + std::string(1, '\0') + rest);
    EXPECT_TRUE(contains(problem, "a.json:2:3: not JSON: a zero byte")) << problem;
  }
}

TEST(Json, ANumberThatNoDoubleHoldsIsNamed) {
  EXPECT_EQ(parse_error("[1e999]"), "a.json:1:6: not JSON: a number is too large: 1e999");
}

TEST(Json, ErrorsStayShortWhateverTheFileHolds) {
  EXPECT_LT(parse_error("\"" + std::string(1000000, 'x')).size(), 400u);
}

TEST(Json, RefusesAKeyGivenTwiceAtAnyDepth) {
  EXPECT_TRUE(contains(parse_error(R"([{"x": {"a": 1, "b": 2, "a": 3}}])"), "duplicate key \"a\""));
}

TEST(Json, RefusesBottomlessNestingBeforeItExhaustsTheStack) {
  EXPECT_TRUE(contains(parse_error(std::string(1000000, '[')), "nested deeper"));
  EXPECT_NO_THROW(parse_json(std::string(200, '[') + std::string(200, ']'), "a.json"));
}

TEST(Json, NumbersThatAreNotFiniteAreWrittenAsNull) {
  const Json document = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1.5};
  EXPECT_EQ(json_text(document), "[null,null,1.5]");
}

TEST(Json, StringsThatAreNotUtf8AreWrittenWithReplacementCharacters) {
  EXPECT_EQ(json_text(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(Json, GettersReturnMembersOfTheirType) {
  EXPECT_EQ(get_int(kDocument, "int", "a"), -3);
  EXPECT_EQ(get_number(kDocument, "int", "a"), -3.0);
  EXPECT_EQ(get_number(kDocument, "real", "a"), 2.5);
  EXPECT_TRUE(get_bool(kDocument, "yes", "a"));
  EXPECT_EQ(get_string(kDocument, "text", "a"), "é");
  EXPECT_TRUE(get_object(kDocument, "object", "a").contains("a"));
  EXPECT_EQ(get_ints(kDocument, "ints", "a"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(get_numbers(kDocument, "ints", "a"), (std::vector<double>{1, 2}));
}

TEST(Json, AnAbsentOrNullMemberGivesTheFallback) {
  for (const char* key : {"absent", "null"}) {
    EXPECT_EQ(get_int(kDocument, key, "a", 7), 7);
    EXPECT_EQ(get_number(kDocument, key, "a", 0.5), 0.5);
    EXPECT_TRUE(get_bool(kDocument, key, "a", true));
    EXPECT_EQ(get_string(kDocument, key, "a", "x"), "x");
    EXPECT_EQ(find_member(kDocument, key, "a"), nullptr);
  }
}

TEST(Json, AMemberOfAnotherTypeIsAnErrorThatShowsIt) {
  const auto shows = [](const std::function<void()>& action, const char* part) {
    EXPECT_TRUE(contains(error_of(action), part)) << error_of(action);
  };
  shows([] { get_int(kDocument, "real", "c.json"); }, "c.json: \"real\" is 2.5; it must be a 64-bit integer");
  shows([] { get_int(kDocument, "big", "c.json"); }, "18446744073709551615");
  shows([] { get_int(kDocument, "text", "c.json", 3); }, "it must be a 64-bit integer");
  shows([] { get_number(kDocument, "text", "c.json"); }, "it must be a number");
  shows([] { get_bool(kDocument, "int", "c.json"); }, "it must be true or false");
  shows([] { get_string(kDocument, "ints", "c.json"); }, "\"ints\" is [1,2]; it must be a string");
  shows([] { get_ints(kDocument, "mixed", "c.json"); }, "\"mixed\" is \"x\"");
  shows([] { get_array(kDocument, "object", "c.json"); }, "it must be an array");
  shows([] { get_object(kDocument, "ints", "c.json"); }, "it must be an object");
  shows([] { get_int(kDocument, "absent", "c.json"); }, "\"absent\" is missing");
  shows([] { find_member(kDocument["ints"], "a", "c.json"); }, "expected an object");
}

TEST(Json, FilesThatCannotBeReadAreNamed) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(
      contains(error_of([&] { read_json_file(folder.path() + "/none.json"); }), "/none.json: cannot be opened"));
  EXPECT_TRUE(contains(error_of([&] { read_json_file(folder.path()); }), "is not a file"));
  const std::string path = folder.write("a.json", "[1, 2, 3]");
  EXPECT_TRUE(contains(error_of([&] { read_json_file(path, 8); }), "too large"));
  EXPECT_EQ(read_json_file(path), Json::array({1, 2, 3}));
}

TEST(Json, APipeIsRefusedInsteadOfWaitedFor) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains(error_of([&] { read_json_file(pipe); }), "is not a file"));
}

TEST(JsonDigest, DependsOnTheContentAlone) {
  const std::uint64_t digest = json_digest(parse_json(R"({"a": 1, "b": [true, "x"]})", "one"));
  EXPECT_EQ(json_digest(parse_json("{\n  \"b\" : [ true,\"x\" ], \"a\":1 }", "two")), digest);
  for (const char* other : {R"({"a": 2, "b": [true, "x"]})", R"({"a": 1, "b": ["x", true]})", R"({"a": 1})"})
    EXPECT_NE(json_digest(parse_json(other, "other")), digest) << other;
}

}  // namespace
}  // namespace bascule
