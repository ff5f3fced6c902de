// SPDX-License-Identifier: Apache-2.0
#include "src/json/value.h"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "src/json/json.h"

namespace bascule {
namespace {

TEST(JsonValue, BracesAreAnObjectWhereEveryElementIsAPairThatBeginsWithAString) {
  EXPECT_EQ(json_text({{"b", 1}, {"a", "x"}}), R"({"a":"x","b":1})");
  EXPECT_EQ(json_text({{"only", {{"one", 1}}}}), R"({"only":{"one":1}})");
  EXPECT_EQ(json_text({{"list", {"x"}}}), R"({"list":["x"]})");
  EXPECT_EQ(json_text({{1, 2}, {"a", 2}}), R"([[1,2],["a",2]])");
  EXPECT_EQ(json_text({{"a", 1, 2}}), R"([["a",1,2]])");
  EXPECT_EQ(json_text(Json::array({{"a", 1}})), R"([["a",1]])");
  EXPECT_EQ(json_text(Json()), "null");
}

TEST(JsonValue, EveryNumberIsWrittenAsItWasRead) {
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
                           "18446744073709551615", "1.0", "0.1", "1e+300", "-0.0"}) {
    EXPECT_EQ(json_text(parse_json(text, "number")), text);
  }
  EXPECT_EQ(json_text(Json(std::numeric_limits<std::uint64_t>::max())), "18446744073709551615");
  EXPECT_EQ(json_text(Json(0.5F)), "0.5");
}

TEST(JsonValue, AnIntegerIsOneThatFitsInto64Bits) {
  EXPECT_TRUE(parse_json("9223372036854775807", "number").is_integer());
  EXPECT_FALSE(parse_json("9223372036854775808", "number").is_integer());
  EXPECT_TRUE(parse_json("9223372036854775808", "number").is_number());
  EXPECT_EQ(parse_json("9223372036854775808", "number").number(), 0x1p63);
  EXPECT_FALSE(Json(1.0).is_integer());
  EXPECT_FALSE(Json(true).is_number());
}

TEST(JsonValue, NumbersAreEqualByValueOtherValuesByTypeToo) {
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_EQ(Json(1u), Json(std::int64_t{1}));
  EXPECT_NE(Json(1), Json(true));
  EXPECT_NE(Json(1), Json("1"));
  EXPECT_NE(Json::array(), Json::object());
  EXPECT_EQ(Json({{"a", {1, 2}}}), parse_json(R"({"a": [1.0, 2]})", "text"));
}

TEST(JsonValue, MembersAndElementsCanBeAddedAndChanged) {
  Json json;
  json["list"] = Json::array();
  json["list"].push_back(std::vector<std::int64_t>{1, 2});
  json["list"][0][1] = "two";
  Json copy = json;
  copy["list"].push_back(nullptr);
  EXPECT_EQ(json_text(json), R"({"list":[[1,"two"]]})");
  EXPECT_EQ(json_text(copy), R"({"list":[[1,"two"],null]})");
  const Json moved = std::move(copy);
  EXPECT_EQ(moved["list"].size(), 2u);
}

TEST(JsonValue, WhatIsNotThereIsNullOrThrows) {
  const Json object = {{"a", 1}}, array = Json::array({1});
  EXPECT_EQ(object.find("b"), nullptr);
  EXPECT_EQ(array.find("b"), nullptr);
  EXPECT_FALSE(Json().contains("a"));
  EXPECT_TRUE(object.contains("a"));
  EXPECT_THROW(object["b"], std::out_of_range);
  EXPECT_THROW(array[1], std::out_of_range);
  EXPECT_THROW(object["a"].string(), std::bad_variant_access);
  EXPECT_THROW(array.items(), std::bad_variant_access);
  EXPECT_THROW(object.begin(), std::bad_variant_access);
  EXPECT_THROW(Json("text").size(), std::bad_variant_access);
  EXPECT_EQ(object.size(), 1u);
}

}  // namespace
}  // namespace bascule
