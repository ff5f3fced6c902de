// SPDX-License-Identifier: Apache-2.0
#include "src/text/unicode_tables.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "tests/support/reference_dir.h"

namespace bascule::test_unicode_tables {
namespace {

// Each name of a file has the ranges of code points of a class, in the order of the classes behind 0, "other".
template <typename Class>
void expect_classes(const std::string& file, const std::vector<std::string>& names, Class (*class_of)(std::uint32_t)) {
  const Json ranges = read_json_file(file);
  std::vector<int> expected(0x110000, 0);
  for (std::size_t name = 0; name < names.size(); ++name) {
    for (const Json& range : ranges[names[name]]) {
      for (std::int64_t c = range[0].integer(); c <= range[1].integer(); ++c)
        expected[static_cast<std::size_t>(c)] = static_cast<int>(name) + 1;
    }
  }
  for (std::uint32_t c = 0; c < 0x110000; ++c) ASSERT_EQ(static_cast<int>(class_of(c)), expected[c]) << c;
  EXPECT_EQ(static_cast<int>(class_of(0xffffffffu)), 0);
}

const std::string kData = std::string(BASCULE_TEST_DATA) + "/tokenizer/";

TEST(UnicodeTables, ClassesAreThoseOfTheTokenizersLibraryForEveryCodePoint) {
  expect_classes<CharacterClass>(test::reference_dir() + "/tokenizer/unicode_classes.json", {"L", "N", "S"},
                                 character_class);
}

TEST(UnicodeTables, WordCharactersAreThoseOfTheTokenizersLibraryForEveryCodePoint) {
  expect_classes<bool>(kData + "word_characters.json", {"W"}, is_word_character);
}

TEST(UnicodeTables, GraphemeClustersAreThoseOfTheTokenizersLibraryForEveryCodePoint) {
  expect_classes<GraphemeClass>(kData + "grapheme_classes.json", {"continues", "alone"}, grapheme_class);
}

TEST(UnicodeTables, WordPieceClassesAreThoseOfTheTokenizersLibraryForEveryCodePoint) {
  expect_classes<WordPieceClass>(kData + "wordpiece/unicode_classes.json",
                                 {"removed", "space", "chinese", "punctuation"}, word_piece_class);
}

}  // namespace
}  // namespace bascule::test_unicode_tables
