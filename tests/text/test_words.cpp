// SPDX-License-Identifier: Apache-2.0
// Tokens of words, and places of tokens in texts, against those of Transformers: tests/data/tokenizer/words.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_words {
namespace {

const std::string kTokenizers = std::string(BASCULE_TEST_DATA) + "/tokenizer/";
const std::pair<const char*, const char*> kKinds[] = {{"wordpiece", "wordpiece"}, {"roberta", "roberta-50k"}};

const Json& cases() {
  static const Json document = read_json_file(kTokenizers + "words.json");
  return document;
}

std::string joined(const Json& words) {
  std::string text;
  for (const Json& word : words) text.append(word.string()).push_back('\0');
  return text;
}

std::vector<std::int32_t> numbers_of(const Json& list) {
  std::vector<std::int32_t> numbers;
  for (const Json& number : list) numbers.push_back(static_cast<std::int32_t>(number.integer()));
  return numbers;
}

std::int64_t characters(const std::string& text, std::size_t bytes) {
  return std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
}

TEST(Words, HaveTheTokensOfTransformers) {
  for (const auto& [name, folder] : kKinds) {
    const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kTokenizers + folder);
    for (const Json& one : cases()[name]["lists"]) {
      const std::string text = joined(one["words"]);
      const std::vector<std::int32_t> expected = numbers_of(one["ids"]), expected_words = numbers_of(one["word_ids"]);
      std::vector<std::byte> scratch(tokenizer->word_scratch_bytes(text.size()));
      for (const bool counts_cut : {true, false}) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(one["max_length"].integer())), words(ids.size());
        EncodedWords encoded;
        ASSERT_TRUE(tokenizer->encode_words_into(text, ids, words, counts_cut, &encoded, scratch).ok());
        ids.resize(static_cast<std::size_t>(encoded.tokens));
        words.resize(ids.size());
        EXPECT_EQ(ids, expected) << name << " " << json_text(one);
        EXPECT_EQ(words, expected_words) << name << " " << json_text(one);
        if (counts_cut) {
          EXPECT_EQ(encoded.cut, one["cut"].integer()) << name << " " << json_text(one);
        }
      }
    }
  }
}

TEST(Words, OfTextsHaveThePlacesOfTransformers) {
  for (const auto& [name, folder] : kKinds) {
    const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kTokenizers + folder);
    for (const Json& one : cases()[name]["texts"]) {
      const std::string text = one["text"].string();
      std::vector<std::int32_t> ids, places;
      for (const PlacedToken& token : tokenizer->place_tokens(text)) {
        ids.push_back(token.id);
        places.push_back(static_cast<std::int32_t>(characters(text, token.begin)));
        places.push_back(static_cast<std::int32_t>(characters(text, token.end)));
      }
      EXPECT_EQ(ids, numbers_of(one["ids"])) << name << " " << text;
      EXPECT_EQ(places, numbers_of(one["places"])) << name << " " << text;
    }
  }
}

TEST(Words, ThatAreNotUtf8AreRefused) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kTokenizers + "wordpiece");
  std::vector<std::int32_t> ids(9), words(9);
  std::vector<std::byte> scratch(tokenizer->word_scratch_bytes(9));
  EncodedWords encoded;
  EXPECT_EQ(tokenizer->encode_words_into(std::string_view("a\0\xff\0", 4), ids, words, true, &encoded, scratch).code,
            StatusCode::kBadSample);
  EXPECT_THROW(tokenizer->place_tokens("a\xff"), Error);
}

// As run_ner.py saves it.
TEST(Words, ATokenizerMayPutASpaceBeforeEachText) {
  test::TemporaryFolder folder;
  for (const char* const file : {"vocab.json", "merges.txt", "special_tokens_map.json"})
    std::filesystem::copy_file(kTokenizers + "roberta-50k/" + file, folder.path() + "/" + file);
  folder.write("tokenizer_config.json", R"({"add_prefix_space": true})");
  const std::unique_ptr<const Tokenizer> with = load_tokenizer(folder.path()),
                                         without = load_tokenizer(kTokenizers + "roberta-50k");
  EXPECT_EQ(with->encode("two cats"), without->encode(" two cats"));
  EXPECT_EQ(with->encode(" two cats"), without->encode(" two cats"));
  EXPECT_EQ(with->encode("a</s>b"), without->encode(" a</s> b"));
  EXPECT_NE(with->digest(), without->digest());
  const PlacedToken first = with->place_tokens("two cats").front();
  EXPECT_EQ(first.begin, 0u);
  EXPECT_EQ(first.end, 3u);
  // A folder that names neither a class nor a model is taken as tokenizer.json has it; RoBERTa's class is not.
  test::TemporaryFolder document;
  document.write("tokenizer.json",
                 R"({"model": {"type": "BPE", "vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3}, "merges": []},
                     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
                     "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}})");
  const std::uint64_t as_written = load_tokenizer(document.path())->digest();
  document.write("tokenizer_config.json", R"({"add_prefix_space": true})");
  EXPECT_EQ(load_tokenizer(document.path())->digest(), as_written);
  for (const char* model : {"roberta", "bridgetower", "led", "longformer", "mvp"}) {
    document.write("config.json", std::string(R"({"model_type": ")") + model + "\"}");
    EXPECT_NE(load_tokenizer(document.path())->digest(), as_written) << model;
  }
}

}  // namespace
}  // namespace bascule::test_words
