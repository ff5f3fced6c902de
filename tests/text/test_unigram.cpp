// SPDX-License-Identifier: Apache-2.0
// T5's unigram tokenizer against the ids of Transformers' T5Tokenizer, and decoding.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"
#include "src/text/unigram.h"
#include "src/text/unigram_files.h"
#include "tests/support/files.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_unigram {
namespace {

using test::Seeded;
using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

const std::string kFolder = std::string(BASCULE_TEST_DATA) + "/tokenizer/unigram";

Json read_data(const std::string& name) {
  return read_json_file(std::string(BASCULE_TEST_DATA) + "/tokenizer/" + name);
}

Json document() { return read_json_file(kFolder + "/tokenizer.json"); }

std::unique_ptr<const Tokenizer> load(const Json& changed) {
  TemporaryFolder folder;
  folder.write("tokenizer.json", json_text(changed));
  return load_tokenizer(folder.path());
}

Ids ids_of(const Json& row) {
  Ids ids;
  for (const Json& id : row) ids.push_back(static_cast<std::int32_t>(id.integer()));
  return ids;
}

TEST(Unigram, GivesTheIdsOfTransformersForEveryCase) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  const Json cases = read_data("unigram_cases.json");
  ASSERT_EQ(cases["cases"].size(), 200u);
  for (const Json& row : cases["cases"])
    EXPECT_EQ(tokenizer->encode(row["text"].string()), ids_of(row["ids"])) << row["text"].string();
  ASSERT_EQ(cases["shaped"].size(), 8u);
  for (const Json& row : cases["shaped"]) {
    Ids ids = tokenizer->encode(row["text"].string(), row["max_length"].integer());
    ids.resize(row["ids"].size(), tokenizer->pad_id());
    EXPECT_EQ(ids, ids_of(row["ids"])) << row["text"].string();
  }
}

// Without a map, which makes a space of the sign. Ids of tokenizers 0.23.
TEST(Unigram, AWordBeginsAtTheSignOfItsBeginningInTheText) {
  Json without = document();
  without["normalizer"] = Json();
  const std::unique_ptr<const Tokenizer> tokenizer = load(without);
  const std::pair<const char*, Ids> cases[] = {{"▁cat", {746, 1}},
                                               {"a▁cat", {12, 746, 1}},
                                               {"▁▁cat", {9, 746, 1}},
                                               {"cat ▁heart", {746, 580, 1}},
                                               {"red▁▁heart", {853, 9, 580, 1}},
                                               {"cat▁", {746, 9, 1}},
                                               {"▁", {9, 1}}};
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer->encode(text), ids) << text;
}

// "x" alone is no piece, yet "xa" and "b" cost less than it and "ab" would. Ids of tokenizers 0.23.
TEST(Unigram, ACharacterThatNoPieceCoversCostsTenMoreThanTheRarestPiece) {
  Json few = document();
  few["normalizer"] = Json();
  few["model"]["vocab"] = parse_json(
      R"([["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["▁", -1], ["xa", -10], ["ab", -1], ["b", -10]])", "pieces");
  Json added = Json::array();
  for (std::size_t i = 0; i < 3; ++i) added.push_back(few["added_tokens"][i]);
  few["added_tokens"] = added;
  const std::unique_ptr<const Tokenizer> tokenizer = load(few);
  EXPECT_EQ(tokenizer->encode("xab"), (Ids{3, 4, 6, 1}));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{3, 5, 1}));
  EXPECT_EQ(tokenizer->encode("x"), (Ids{3, 2, 1}));
}

TEST(Unigram, DecodesAsTransformersDoes) {
  const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(kFolder);
  const Json cases = read_data("unigram_cases.json");
  for (const Json& row : cases["cases"]) EXPECT_EQ(decoder->decode(ids_of(row["ids"])), row["decoded"].string());
  const Json forms = read_data("unigram_forms.json");
  for (std::size_t i = 0; i < forms["ids"].size(); ++i)
    EXPECT_EQ(decoder->decode(ids_of(forms["ids"][i])), forms["decoded"][i].string()) << forms["texts"][i].string();
  EXPECT_EQ(decoder->decode(Ids{-1, 2100, 32000, 1}), "");
}

TEST(Unigram, TakesTheOtherPublishedFormsOfThePipeline) {
  const Json forms = read_data("unigram_forms.json");
  const std::unique_ptr<const Tokenizer> as_it_is = load_tokenizer(kFolder);
  for (std::size_t i = 0; i < forms["texts"].size(); ++i)
    EXPECT_EQ(as_it_is->encode(forms["texts"][i].string()), ids_of(forms["ids"][i])) << forms["texts"][i].string();
  for (const char* name : {"strip", "strip-space"}) {
    const Json& form = forms["forms"][name];
    Json changed = document();
    Json normalizers = Json::array();
    normalizers.push_back(changed["normalizer"]);
    for (const Json& normalizer : form["normalizers"]) normalizers.push_back(normalizer);
    changed["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
    changed["pre_tokenizer"] = form["pre_tokenizer"];
    const std::unique_ptr<const Tokenizer> tokenizer = load(changed);
    EXPECT_NE(tokenizer->digest(), as_it_is->digest());
    for (std::size_t i = 0; i < forms["texts"].size(); ++i)
      EXPECT_EQ(tokenizer->encode(forms["texts"][i].string()), ids_of(form["ids"][i])) << forms["texts"][i].string();
  }
}

TEST(Unigram, HasAnotherDigestWithAnotherMap) {
  Json without = document();
  without["normalizer"] = Json();
  const std::unique_ptr<const Tokenizer> tokenizer = load(without), as_it_is = load_tokenizer(kFolder);
  EXPECT_NE(tokenizer->digest(), as_it_is->digest());
  EXPECT_NE(tokenizer->encode("\uFB01"), as_it_is->encode("\uFB01"));
}

TEST(Unigram, EndsEachTextOfAPairAndCutsDownToOneToken) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  const Json forms = read_data("unigram_forms.json");
  for (const Json& row : forms["pairs"])
    EXPECT_EQ(tokenizer->encode(Texts{row["first"].string(), row["second"].string()}), ids_of(row["ids"]));
  EXPECT_EQ(tokenizer->special_tokens(false), 1);
  EXPECT_EQ(tokenizer->encode("two cats", 1), Ids{1});
  EXPECT_EQ(tokenizer->encode(""), Ids{1});
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->vocabulary_size(), 2100);
  EXPECT_EQ(tokenizer->special_ids().size(), 103u);
  EXPECT_EQ(load_token_texts(kFolder)[2099], "<extra_id_0>");
}

TEST(Unigram, EncodesIntoMemoryOfTheCallerAndSaysWhereItIsTooSmall) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  Seeded random;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::int64_t i = random.integer(0, 40); i > 0; --i) {
      const char* const parts[] = {"a",       "cats",   " ",      "  ",    "\uFDFA", "\u00AA\u0301",
                                   "e\u0301", "\u65E5", "\u2581", "<unk>", "\t"};
      text += parts[random.integer(0, 10)];
    }
    // As small as it may be, at an odd address, with bytes behind it that must stay.
    std::vector<std::byte> memory(tokenizer->scratch_bytes(text.size()) + 9, std::byte{0x5A});
    Ids ids(200);
    Encoded encoded;
    const Span<std::byte> scratch(memory.data() + 1, memory.size() - 9);
    ASSERT_TRUE(tokenizer->encode_into({text}, ids, &encoded, scratch).ok());
    for (std::size_t i = memory.size() - 8; i < memory.size(); ++i) EXPECT_EQ(memory[i], std::byte{0x5A});
    ids.resize(static_cast<std::size_t>(encoded.tokens));
    EXPECT_EQ(ids, tokenizer->encode(text, 200)) << text;
  }
  std::vector<std::byte> scratch(tokenizer->scratch_bytes(3));
  Ids ids(8);
  Encoded encoded;
  const Status status = tokenizer->encode_into({"four"}, ids, &encoded, scratch);
  EXPECT_EQ(status.code, StatusCode::kBadSample);
  EXPECT_EQ(status.detail[1], Tokenizer::kPieceTooLong);
}

TEST(Unigram, RefusesWhatT5DoesNotHave) {
  const auto refused = [](const Json& changed, const std::string& words) {
    EXPECT_TRUE(test::fails([&] { load(changed); }, words));
  };
  const auto with = [](const auto& change) {
    Json changed = document();
    change(changed);
    return changed;
  };
  refused(with([](Json& d) { d["model"]["unk_id"] = Json(); }), "no unknown token");
  refused(with([](Json& d) { d["model"]["unk_id"] = 5000; }), "no unknown token");
  for (const Json& id : {Json(4194304), Json(1073741823), Json(-1), Json("7"), Json()})
    refused(with([&id](Json& d) { d["added_tokens"][0]["id"] = id; }), "ids are whole numbers from 0 to 4194303");
  for (const char* entry : {R"("a")", R"(["a"])", "[1, 2]", R"(["a", "b"])", R"(["a", 1, 2])"})
    refused(with([entry](Json& d) { d["model"]["vocab"].push_back(parse_json(entry, "entry")); }),
            "an entry is [piece, score]");
  refused(with([](Json& d) { d["model"]["byte_fallback"] = true; }), "byte_fallback");
  refused(with([](Json& d) { d["post_processor"] = {{"type", "ByteLevel"}}; }), "</s> behind a text");
  refused(with([](Json& d) { d["normalizer"] = {{"type", "NFKC"}}; }), "\"NFKC\" is not supported");
  refused(with([](Json& d) { d["pre_tokenizer"] = {{"type", "Whitespace"}}; }), "is not Metaspace");
  for (const bool both : {true, false})
    refused(with([both](Json& d) {
              d["normalizer"] = {{"type", "Strip"}, {"strip_left", both}, {"strip_right", both}};
            }),
            "strip on the right alone");
  refused(with([](Json& d) {
            d["normalizer"] = {{"type", "Strip"}, {"strip_left", false}, {"strip_right", false}};
          }),
          "strip on the right alone");
  const auto metaspace = [](const Json& member) {
    return [member](Json& d) {
      Json part = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", true}};
      for (const auto& [key, value] : member.items()) part[key] = value;
      d["pre_tokenizer"] = part;
    };
  };
  (void)load(with(metaspace(Json::object())));
  refused(with(metaspace({{"replacement", "_"}})), "replacement is not");
  refused(with(metaspace({{"prepend_scheme", "first"}})), "before every word");
  refused(with(metaspace({{"add_prefix_space", false}})), "before every word");
  refused(with(metaspace({{"split", false}})), "Metaspace does not split");
  for (const char* list : {"single", "pair"})
    refused(with([&](Json& d) { d["post_processor"][list].push_back(d["post_processor"][list][0]); }),
            "</s> behind a text");
  refused(with([](Json& d) { d["normalizer"]["precompiled_charsmap"] = "ab!"; }), "not base64");
  refused(with([](Json& d) { d["normalizer"]["precompiled_charsmap"] = "AAEAAAAA"; }), "cut short");
  TemporaryFolder folder;
  std::filesystem::copy_file(kFolder + "/spiece.model", folder.path() + "/spiece.model");
  EXPECT_TRUE(test::fails([&] { load_tokenizer(folder.path()); }, "save_pretrained"));
}

// T5Tokenizer has so many where nothing is said, and finds all of them in a text.
TEST(Unigram, AHundredExtraIdsAreWantedUnlessItsConfigurationSaysHowMany) {
  Json small = document();
  Json pieces = Json::array(), added = Json::array();
  for (const Json& piece : small["model"]["vocab"])
    if (piece[0].string().rfind("<extra_id_", 0) != 0) pieces.push_back(piece);
  for (const Json& token : small["added_tokens"])
    if (token["content"].string().rfind("<extra_id_", 0) != 0) added.push_back(token);
  small["model"]["vocab"] = pieces;
  small["added_tokens"] = added;
  TemporaryFolder folder;
  folder.write("tokenizer.json", json_text(small));
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 0})");
  EXPECT_EQ(load_tokenizer(folder.path())->vocabulary_size(), 2000);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})");
  EXPECT_TRUE(
      test::fails([&] { load_tokenizer(folder.path()); }, "extra_ids is 100, but there is no token \"<extra_id_0>\""));
}

TEST(Unigram, WhatT5TokenizerTakesForGrantedIsRefusedWhereTheFileSaysOtherwise) {
  const auto refused = [](const Json& tokenizer, const std::string& members, const std::string& words) {
    TemporaryFolder folder;
    folder.write("tokenizer.json", json_text(tokenizer));
    folder.write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer")" + members + "}");
    EXPECT_TRUE(test::fails([&] { load_tokenizer(folder.path()); }, words));
  };
  Json other = document();
  other["model"]["unk_id"] = 3;
  refused(other, "", "unk_id is not 2");
  refused(document(), R"(, "eos_token": "<pad>")", "eos_token is \"<pad>\", but texts end with \"</s>\"");
}

std::string word(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> 8 * i & 0xff));
  return bytes;
}

// A map of one key, an ASCII character, in a trie of 256 units whose root's children lie at their own bytes.
std::string one_key(std::uint32_t value, const std::string& values, unsigned char key = 'A') {
  std::vector<std::uint32_t> units(256, 0x80000000u);
  units[0] = 0;
  units[key] = (std::uint32_t{key} ^ 1u) << 10 | 1u << 8 | key;  // its leaf is unit 1
  units[1] = 0x80000000u | value;
  std::string bytes = word(4 * 256);
  for (const std::uint32_t unit : units) bytes += word(unit);
  return bytes + values;
}

TEST(CharacterMap, ReplacesAKeyAndIsRefusedWhereItLeadsOutside) {
  const std::string values = std::string("x\0bcd\0", 6);
  const CharacterMap map(one_key(2, values), "map");
  char out[32];
  EXPECT_EQ(map.most_bytes(5), 15u);
  EXPECT_EQ(std::string(out, map.apply("zAA\u0301", out)), "zbcdbcd");  // the mark goes with the cluster
  EXPECT_EQ(std::string(out, map.apply("A\u0301\u0301\u0301", out)), "bcd\u0301\u0301\u0301");  // a long cluster
  EXPECT_EQ(std::string(out, CharacterMap().apply("A", out)), "A");
  const std::string whole = one_key(2, values);
  for (std::size_t bytes = 0; bytes + 6 <= whole.size(); bytes += 5)
    EXPECT_THROW(CharacterMap(whole.substr(0, bytes), "map"), Error) << bytes;
  EXPECT_THROW(CharacterMap(one_key(6, values), "map"), Error);
  EXPECT_THROW(CharacterMap(one_key(0, std::string("\xFFx\0", 3)), "map"), Error);
  EXPECT_THROW(CharacterMap(one_key(0, "no end"), "map"), Error);
}

// Together they are one grapheme cluster, and a cluster that begins with a key is replaced whole.
TEST(CharacterMap, ReplacesACarriageReturnAndALineFeedTogether) {
  const CharacterMap map(one_key(0, std::string("x\0", 2), '\r'), "map");
  char out[32];
  EXPECT_EQ(std::string(out, map.apply("a\r\nb", out)), "axb");
  EXPECT_EQ(std::string(out, map.apply("a\r\r\n\n\r", out)), "axx\nx");
}

TEST(PieceTrie, FindsAllPiecesThatATextBeginsWith) {
  const PieceTrie trie({{"a", 0}, {"abc", 1}, {"ab", 2}, {"b", 3}, {"", 4}, {"abc", 5}, {"\xC3\xA9", 6}});
  const auto found = [&](std::string_view text, std::size_t place) {
    std::vector<std::pair<std::size_t, std::int32_t>> all;
    trie.find_all(text, place, [&](std::size_t bytes, std::int32_t id) { all.emplace_back(bytes, id); });
    return all;
  };
  using All = std::vector<std::pair<std::size_t, std::int32_t>>;
  EXPECT_EQ(found("abcd", 0), (All{{1, 0}, {2, 2}, {3, 5}}));
  EXPECT_EQ(found("xab", 1), (All{{1, 0}, {2, 2}}));
  EXPECT_EQ(found("xyz", 0), All{});
  EXPECT_EQ(found("ab", 2), All{});
  EXPECT_EQ(trie.longest(), 3u);
}

}  // namespace
}  // namespace bascule::test_unigram
