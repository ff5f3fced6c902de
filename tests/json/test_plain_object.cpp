// SPDX-License-Identifier: Apache-2.0
#include "src/json/plain_object.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "tests/support/seeded.h"

namespace bascule {
namespace {

TEST(PlainObject, GivesMembersAsTheyStand) {
  PlainObject object;
  const std::string text = " {\"a\" : \"x, }\xC3\xA9\",\t\"n\":-12, \"t\":true,\"f\": false ,\"o\":null, \"\":0}\r\n";
  ASSERT_TRUE(object.read(text));
  EXPECT_EQ(object.find("a")->text, "x, }\xC3\xA9");
  EXPECT_EQ(object.find("n")->integer, -12);
  EXPECT_EQ(object.find("t")->kind, PlainKind::kTrue);
  EXPECT_EQ(object.find("f")->kind, PlainKind::kFalse);
  EXPECT_EQ(object.find("o")->kind, PlainKind::kNull);
  EXPECT_EQ(object.find("")->kind, PlainKind::kInteger);
  EXPECT_EQ(object.find("x"), nullptr);
}

TEST(PlainObject, LeavesTheRestToTheParser) {
  PlainObject object;
  for (const char* const text : {"",
                                 "{",
                                 "{}",
                                 "[]",
                                 "{\"a\": \"\\n\"}",
                                 "{\"a\": 1.0}",
                                 "{\"a\": 1e2}",
                                 "{\"a\": {}}",
                                 "{\"a\": [1]}",
                                 "{\"a\": 1, \"a\": 2}",
                                 "{\"a\": 01}",
                                 "{\"a\": -}",
                                 "{\"a\": 1,}",
                                 "{\"a\": 1} x",
                                 "{\"a\" 1}",
                                 "{a: 1}",
                                 "{\"a\": \"\n\"}",
                                 "{\"a\": \"x}",
                                 "{\"a\": tru}",
                                 "{\"a\": 1234567890123456789}",
                                 "{\"a\": 9999999999999999999}",
                                 "{\"a\": -99999999999999999999999}",
                                 "{\"a\": nulll}"}) {
    EXPECT_FALSE(object.read(text)) << text;
  }
}

// The parser accepts every row that a plain object accepts, with the same members.
TEST(PlainObject, AgreesWithTheParserOnMutatedRows) {
  test::Seeded random;
  const std::string original =
      R"({"image": "a/b.jpg", "caption": "two, {cats}", "label": 1, "more": -70, "x": true, "y": null})";
  PlainObject object;
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = original;
    for (std::int64_t changes = random.integer(1, 3); changes > 0; --changes) {
      const std::size_t place = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(text.size()) - 1));
      const char other = "\"\\{}[],: \t\n0-1.etrufalsn"[random.integer(0, 23)];
      if (random.chance(0.4))
        text.erase(place, 1);
      else if (random.chance(0.5))
        text.insert(place, 1, other);
      else
        text[place] = other;
    }
    if (!object.read(text)) continue;
    ++taken;
    Json parsed;
    ASSERT_NO_THROW(parsed = parse_json(text, "row")) << text;
    for (const auto& [key, value] : parsed.items()) {
      const PlainMember* const member = object.find(key);
      ASSERT_NE(member, nullptr) << text;
      switch (member->kind) {
        case PlainKind::kString: ASSERT_EQ(value, std::string(member->text)) << text; break;
        case PlainKind::kInteger: ASSERT_EQ(value, member->integer) << text; break;
        case PlainKind::kTrue: ASSERT_EQ(value, true) << text; break;
        case PlainKind::kFalse: ASSERT_EQ(value, false) << text; break;
        case PlainKind::kNull: ASSERT_TRUE(value.is_null()) << text; break;
      }
    }
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace bascule
