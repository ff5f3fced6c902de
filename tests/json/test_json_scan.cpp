// SPDX-License-Identifier: Apache-2.0
#include "src/json/json_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "tests/support/seeded.h"

namespace bascule {
namespace {

bool is_taken(const std::string& text) { return check_json(text).what == nullptr; }

bool parses(const std::string& text) {
  try {
    parse_json(text, "text");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string text_of(const JsonView& value) {
  std::string room(value.raw_string().size(), '\0');
  return std::string(value.string({room.data(), room.size()}));
}

// The document that a reader sees through views, built again.
Json seen(const JsonView& value) {
  switch (value.kind()) {
    case JsonKind::kObject: {
      Json object = Json::object();
      for (JsonView one = value.first(); one.is_there(); one = one.next()) {
        const std::string quoted = "\"" + std::string(one.raw_key()) + "\"";
        object[text_of(JsonView(quoted))] = seen(one);
      }
      return object;
    }
    case JsonKind::kArray: {
      Json array = Json::array();
      for (JsonView one = value.first(); one.is_there(); one = one.next()) array.push_back(seen(one));
      return array;
    }
    case JsonKind::kString: return Json(text_of(value));
    case JsonKind::kNumber:
      if (const auto integer = value.integer()) return Json(*integer);
      return Json(value.number().value_or(std::nan("")));
    case JsonKind::kTrue: return Json(true);
    case JsonKind::kFalse: return Json(false);
    default: return Json();
  }
}

const char* const kDocuments[] = {
    R"({"inputs": "a cat", "truncate": false})",
    R"({"input":["a","b",[1,2]],"n":-0,"x":1.5e3,"y":[],"z":{},"u":null})",
    "  [ true , false , null , 0 , -12 , 0.5 , 1E-2 ]  ",
    R"("é\u00e9\ud83d\ude00\n\/\\\"")",
    R"({"a":{"b":{"c":[[[[["d"]]]]]}}, "\u0061b": 2})",
    "7",
};

TEST(JsonScan, SeesWhatParseJsonSees) {
  for (const char* document : kDocuments) {
    ASSERT_TRUE(is_taken(document)) << document;
    EXPECT_EQ(json_text(seen(JsonView(document))), json_text(parse_json(document, "text"))) << document;
  }
}

TEST(JsonScan, TakesAndRefusesWhatParseJsonDoes) {
  test::Seeded random;
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = kDocuments[random.integer(0, static_cast<std::int64_t>(std::size(kDocuments)) - 1)];
    for (int changes = static_cast<int>(random.integer(1, 3)); changes > 0; --changes) {
      constexpr char kSigns[] = "{}[]\":,\\u0e1-+. tn\x80\xC3\xED\xA0\x01";
      const std::size_t place = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(text.size()) - 1));
      const char sign = kSigns[random.integer(0, static_cast<std::int64_t>(sizeof kSigns) - 2)];
      if (random.integer(0, 1) == 0) {
        text[place] = sign;
      } else {
        text.insert(place, 1, sign);
      }
    }
    EXPECT_EQ(is_taken(text), parses(text)) << text;
    if (!is_taken(text)) continue;
    ++taken;
    EXPECT_EQ(json_text(seen(JsonView(text))), json_text(parse_json(text, "text"))) << text;
  }
  EXPECT_GT(taken, 1000);
}

TEST(JsonScan, RefusesEachHostileDocumentByName) {
  const struct {
    std::string text;
    const char* what;
  } cases[] = {
      {"", "the document ends early"},
      {"{\"a\":1,\"a\":2}", "an object has a member twice"},
      {"{\"a\":1,\"\\u0061\":2}", "an object has a member twice"},
      {std::string(33, '[') + std::string(33, ']'), "the document is nested too deeply"},
      {std::string(2'000'000, '['), "the document is nested too deeply"},
      {"\"\xff\"", "a byte is not UTF-8"},
      {"\"\\ud800\"", "a string has an escape that is none, or half of a surrogate pair"},
      {"\"\\x\"", "a string has an escape that is none, or half of a surrogate pair"},
      {"\"a\nb\"", "a string has a control character"},
      {"\"a", "a string has no end"},
      {"01", "a number begins with 0"},
      {"1.", "a number has no digit where one is expected"},
      {"[1,]", "a value is expected"},
      {"{\"a\"}", "a colon is expected"},
      {"{} {}", "there is more behind the end of the document"},
      {"NaN", "a value is expected"},
  };
  for (const auto& [text, what] : cases) EXPECT_STREQ(check_json(text).what, what) << text.substr(0, 40);
  EXPECT_EQ(check_json("[1, x]").byte, 4u);
  EXPECT_TRUE(is_taken(std::string(32, '[') + std::string(32, ']')));
  std::string many = "{";
  for (std::size_t i = 0; i < kMostScannedMembers; ++i) many += "\"" + std::to_string(i) + "\":0,";
  EXPECT_TRUE(is_taken(many.substr(0, many.size() - 1) + "}"));
  EXPECT_STREQ(check_json(many + "\"x\":0}").what, "an object has too many members");
}

TEST(JsonScan, NumbersOutOfRangeAreNone) {
  const std::string document =
      R"([9223372036854775807, 9223372036854775808, 1.0, 1e400, 1)" + std::string(1000, '0') + "]";
  ASSERT_TRUE(is_taken(document));
  JsonView one = JsonView(document).first();
  EXPECT_EQ(one.integer(), 9223372036854775807);
  one = one.next();
  EXPECT_FALSE(one.integer());
  EXPECT_TRUE(one.number());
  one = one.next();
  EXPECT_FALSE(one.integer());
  one = one.next();
  EXPECT_FALSE(one.number());
  one = one.next();
  EXPECT_FALSE(one.integer() || one.number());
  EXPECT_FALSE(one.next().is_there());
}

TEST(JsonScan, ComparesTextsBehindTheirEscapes) {
  const std::string document = R"({"\u0069nputs": "qu\u00e9ry", "n": 1})";
  ASSERT_TRUE(is_taken(document));
  EXPECT_TRUE(JsonView(document).member("inputs").equals("quéry"));
  EXPECT_FALSE(JsonView(document).member("inputs").equals("quér"));
  EXPECT_FALSE(JsonView(document).member("inputs").equals("quéry "));
  EXPECT_FALSE(JsonView(document).member("n").equals("1"));
  EXPECT_FALSE(JsonView(document).member("x").is_there());
  EXPECT_EQ(JsonView(document).count(), 2u);
  const std::string tab = R"({"a\tb": 1})";  // a name that is asked for has no escapes
  EXPECT_TRUE(JsonView(tab).member("a\tb").is_there());
  EXPECT_FALSE(JsonView(tab).member("a\\tb").is_there());
}

}  // namespace
}  // namespace bascule
