// SPDX-License-Identifier: Apache-2.0
#include "src/text/unicode_tables.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "tests/support/reference_dir.h"

namespace bascule {
namespace {

TEST(UnicodeClasses, AreThoseOfTheTokenizersLibraryForEveryCodePoint) {
  const Json ranges = read_json_file(test::reference_dir() + "/tokenizer/unicode_classes.json");
  std::vector<CharacterClass> expected(0x110000, CharacterClass::kOther);
  for (const auto& [name, value] : {std::pair{"L", CharacterClass::kLetter}, std::pair{"N", CharacterClass::kNumber},
                                    std::pair{"S", CharacterClass::kSpace}}) {
    for (const Json& range : ranges[name]) {
      for (std::int64_t c = range[0].integer(); c <= range[1].integer(); ++c)
        expected[static_cast<std::size_t>(c)] = value;
    }
  }
  for (std::uint32_t c = 0; c < 0x110000; ++c) ASSERT_EQ(character_class(c), expected[c]) << c;
  EXPECT_EQ(character_class(0xffffffffu), CharacterClass::kOther);
}

TEST(UnicodeClasses, WordCharactersAreThoseOfTheTokenizersLibraryForEveryCodePoint) {
  const Json ranges = read_json_file(std::string(BASCULE_TEST_DATA) + "/tokenizer/word_characters.json");
  std::vector<bool> expected(0x110000, false);
  for (const Json& range : ranges["W"])
    for (std::int64_t c = range[0].integer(); c <= range[1].integer(); ++c)
      expected[static_cast<std::size_t>(c)] = true;
  for (std::uint32_t c = 0; c < 0x110000; ++c) ASSERT_EQ(is_word_character(c), expected[c]) << c;
  EXPECT_FALSE(is_word_character(0xffffffffu));
}

}  // namespace
}  // namespace bascule
