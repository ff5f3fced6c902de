// SPDX-License-Identifier: Apache-2.0
#include "src/text/unicode_tables.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/utf8.h"
#include "src/json/json.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

const Json& forms() {
  static const Json document = read_json_file(std::string(BASCULE_TEST_DATA) + "/tokenizer/unicode_forms.json");
  return document;
}

std::uint32_t from_hex(const std::string& hex) { return static_cast<std::uint32_t>(std::stoul(hex, nullptr, 16)); }

std::string text_of(std::uint32_t code_point) {
  char bytes[4];
  return {bytes, put_utf8(code_point, bytes)};
}

std::string nfc_of(const std::string& text) {
  std::vector<std::uint64_t> characters(nfc_code_points(text.size()));
  const std::size_t count = nfc(text, characters.data());
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text_of(static_cast<std::uint32_t>(characters[i]));
  return result;
}

bool is_surrogate(std::uint32_t c) { return c >= 0xd800 && c < 0xe000; }

TEST(Nfc, ComposesEveryCharacterAsTheTokenizersLibraryDoes) {
  std::vector<std::string> decomposed(0x110000);
  for (const auto& [hex, text] : forms()["decomposed"].items()) decomposed[from_hex(hex)] = text.string();
  std::vector<bool> is_composed(0x110000, false);
  for (const Json& hex : forms()["composed"]) is_composed[from_hex(hex.string())] = true;
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (is_surrogate(c)) continue;
    const std::string own = text_of(c);
    if (decomposed[c].empty() || is_composed[c]) {
      ASSERT_EQ(nfc_of(own), own) << c;
    } else {  // a composition that is excluded: its parts stay, or compose to another character
      ASSERT_NE(nfc_of(own), own) << c;
    }
    if (decomposed[c].empty()) continue;
    ASSERT_EQ(nfc_of(decomposed[c]), nfc_of(own)) << c;
  }
}

TEST(Nfc, ComposesHangulByArithmetic) {
  for (std::uint32_t c = 0xac00; c < 0xd7a4; ++c) {
    const std::uint32_t trailing = (c - 0xac00) % 28;
    std::string parts = text_of(0x1100 + (c - 0xac00) / 588) + text_of(0x1161 + (c - 0xac00) / 28 % 21);
    const std::string pair = text_of(c - trailing);
    if (trailing > 0) {
      parts += text_of(0x11a7 + trailing);
      ASSERT_EQ(nfc_of(pair + text_of(0x11a7 + trailing)), text_of(c));
    }
    ASSERT_EQ(nfc_of(parts), text_of(c));
    ASSERT_EQ(nfc_of(text_of(c)), text_of(c));
  }
  EXPECT_EQ(nfc_of("\uac00\u11a7"), "\uac00\u11a7");  // U+11A7 is no trailing consonant
  EXPECT_EQ(nfc_of("\uac01\u11a8"), "\uac01\u11a8");  // two of them do not fit
}

TEST(Nfc, OrdersAndComposesMarksAsTheTokenizersLibraryDoes) {
  ASSERT_EQ(forms()["nfc"].size(), 500u);
  for (const Json& pair : forms()["nfc"]) EXPECT_EQ(nfc_of(pair[0].string()), pair[1].string()) << pair[0].string();
}

TEST(Nfc, HasTheClassesAndTheLowerCaseOfTheTokenizersLibrary) {
  std::vector<std::uint32_t> classes(0x110000, 0);
  for (const Json& range : forms()["combining_classes"]) {
    for (std::int64_t c = range[0].integer(); c <= range[1].integer(); ++c)
      classes[static_cast<std::size_t>(c)] = static_cast<std::uint32_t>(range[2].integer());
  }
  std::vector<std::string> lowered(0x110000);
  for (const auto& [hex, text] : forms()["lowered"].items()) lowered[from_hex(hex)] = text.string();
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    ASSERT_EQ(combining_class(c), classes[c]) << c;
    if (is_surrogate(c)) continue;
    const CodePointPair lower = lower_case(c);
    const std::string text = text_of(lower.first) + (lower.second == 0 ? "" : text_of(lower.second));
    ASSERT_EQ(text, lowered[c].empty() ? text_of(c) : lowered[c]) << c;
  }
}

// Names that are not UTF-8 have no forms: two of them are not alike because each is unreadable.
TEST(Nfc, NotesNamesInAnotherFormAndNoOthers) {
  const test::TemporaryFolder folder;
  const std::string composed = "caf\u00e9", decomposed = "cafe\u0301", note = ", but the same name exists in another";
  folder.write(decomposed + ".txt", "");
  folder.write("latin\xe9.txt", "");
  std::filesystem::create_directory(folder.path() + "/b\u00fc");
  folder.write("b\u00fc/" + composed + ".txt", "");
  const auto noted = [&](const std::string& name) { return note_on_other_form(folder.path() + "/" + name); };
  EXPECT_EQ(noted(composed + ".txt").substr(0, note.size()), note);
  EXPECT_EQ(noted("bu\u0308/" + decomposed + ".txt").substr(0, note.size()), note) << "in a folder of another form";
  for (const std::string& name : {decomposed + ".txt", composed + ".png", std::string("latin\xe8.txt"),
                                  std::string("latin\xe9.txt"), std::string("latin\u00e9.txt"), std::string("gone"),
                                  "bu\u0308/" + composed + ".png", "gone\u00fc/" + composed + ".txt"})
    EXPECT_EQ(noted(name), "") << name;
}

// Many marks in reversed order, in the time of a sort.
TEST(Nfc, OrdersALongRunOfMarksAndKeepsTheOrderOfEquals) {
  const std::size_t each = 20000;
  std::string text = "a", above, below;
  for (std::size_t i = 0; i < each; ++i) {
    const std::string one = i % 2 == 0 ? "\u0304" : "\u033d", other = i % 2 == 0 ? "\u0320" : "\u0330";
    text += one + other;
    above += one;
    below += other;
  }
  EXPECT_EQ(nfc_of(text), "\u0101" + below + above.substr(2));
}

}  // namespace
}  // namespace bascule
