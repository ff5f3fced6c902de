// SPDX-License-Identifier: Apache-2.0
#include "src/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace bascule {
namespace {

std::string encoded(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
}

TEST(Utf8, TakesEveryCodePointButSurrogatesAndGivesItBack) {
  for (std::uint32_t c = 0; c < 0x120000; ++c) {
    const std::string text = "a" + encoded(c) + "b";
    const bool good = c < 0x110000 && (c < 0xD800 || c > 0xDFFF);
    ASSERT_EQ(first_invalid_utf8(text), good ? text.size() : 1u) << c;
    if (good) {
      ASSERT_EQ(utf8_character(text, 1).code_point, c);
      char bytes[4];
      ASSERT_EQ(std::string(bytes, put_utf8(c, bytes)), encoded(c)) << c;
    }
  }
}

TEST(Utf8, RefusesOverlongFormsAndCutCharactersAtAnyPlace) {
  for (const char* bad : {"\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\x80", "\xE2\x82",
                          "\xF0\x9F\x98", "\xF5\x80\x80\x80", "\xFF"}) {
    for (std::size_t before = 0; before < 20; ++before) {
      EXPECT_EQ(first_invalid_utf8(std::string(before, 'a') + bad), before);
      EXPECT_EQ(first_invalid_utf8(std::string(before, 'a') + bad + "long enough for eight bytes"), before);
    }
  }
}

TEST(Utf8, FindsTheBytesOfACharacterWhereverOneBegins) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_EQ(utf8_bytes_at(text, 0), 1u);
  EXPECT_EQ(utf8_bytes_at(text, 1), 2u);
  EXPECT_EQ(utf8_bytes_at(text, 2), 0u);
  EXPECT_EQ(utf8_bytes_at(text, 3), 3u);
  EXPECT_EQ(utf8_bytes_at(text, 6), 4u);
  EXPECT_EQ(utf8_bytes_at(text.substr(0, 8), 6), 0u);
  EXPECT_EQ(utf8_bytes_at("\xED\xA0\x80", 0), 0u);
}

TEST(Utf8, CountsCharactersAndCutsBetweenThem) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_EQ(utf8_characters(text), 4u);
  EXPECT_EQ(utf8_characters(""), 0u);
  const std::size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (std::size_t limit = 0; limit < 12; ++limit) EXPECT_EQ(utf8_cut(text, limit), cuts[limit]) << limit;
}

}  // namespace
}  // namespace bascule
