// SPDX-License-Identifier: Apache-2.0
// Added tokens and kept accents, as Transformers saves them: tests/data/tokenizer/added_forms.json.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/side_tokens.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;

const std::string kTokenizers = std::string(BASCULE_TEST_DATA) + "/tokenizer/";

// tokenizer.json, or vocab.txt alone, beside which tokenizer_config.json lists the tokens.
void write_added_form(const Json& form, bool has_document, const TemporaryFolder& folder) {
  const std::string source = kTokenizers + form["folder"].string() + "/";
  Json config = read_json_file(source + "tokenizer_config.json");
  for (const auto& [key, value] : form["config"].items()) config[key] = value;
  if (has_document) {
    Json document = read_json_file(source + "tokenizer.json");
    document["added_tokens"] = form["added_tokens"];
    folder.write("tokenizer.json", json_text(document));
  } else {
    std::filesystem::copy_file(source + "vocab.txt", folder.path() + "/vocab.txt");
    Json listed = Json::object();
    for (const Json& token : form["added_tokens"]) listed[std::to_string(token["id"].integer())] = token;
    config["added_tokens_decoder"] = listed;
  }
  folder.write("tokenizer_config.json", json_text(config));
}

TEST(AddedTokens, AndKeptAccentsGiveTheIdsOfTransformers) {
  const Json goldens = read_json_file(kTokenizers + "added_forms.json");
  ASSERT_EQ(goldens["forms"].size(), 6u);
  for (const Json& form : goldens["forms"]) {
    for (const bool has_document : {true, false}) {
      if (!has_document && form["folder"].string() != "wordpiece") continue;
      SCOPED_TRACE(form["name"].string() + (has_document ? "" : " without tokenizer.json"));
      const TemporaryFolder folder;
      write_added_form(form, has_document, folder);
      const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
      for (std::size_t i = 0; i < form["texts"].size(); ++i) {
        const std::string text = form["texts"][i].string();
        EXPECT_EQ(Json(tokenizer->encode(text)), form["ids"][i]) << text;
        std::vector<std::byte> scratch(tokenizer->scratch_bytes(text.size()));
        std::vector<std::int32_t> few(6);
        Encoded encoded;
        ASSERT_TRUE(tokenizer->encode_into({text}, few, &encoded, scratch).ok());
        for (std::size_t k = 0; k + 2 < static_cast<std::size_t>(encoded.tokens); ++k)
          EXPECT_EQ(few[k], form["ids"][i][k].integer()) << text;
      }
      const std::vector<std::string> shown = load_token_texts(folder.path());
      for (std::size_t i = 0; i < form["added_tokens"].size(); ++i) {
        const std::size_t id = static_cast<std::size_t>(form["added_tokens"][i]["id"].integer());
        EXPECT_EQ(shown[id], form["shown"][i].string());
      }
      EXPECT_NE(tokenizer->digest(), load_tokenizer(kTokenizers + form["folder"].string())->digest());
    }
  }
}

std::unique_ptr<const Tokenizer> with_token(const std::string& added) {
  const TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n");
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"8": )" + added + "}}");
  return load_tokenizer(folder.path());
}

std::vector<std::string> placed(const std::string& added, const std::string& text) {
  std::vector<std::string> tokens;
  for (const PlacedToken& token : with_token(added)->place_tokens(text))
    tokens.push_back(std::to_string(token.id) + ":" + text.substr(token.begin, token.end - token.begin));
  return tokens;
}

TEST(AddedTokens, HaveTheirPlacesInTheTextAsItIsWritten) {
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(placed(R"({"content": "Xé", "special": false})", "ab \u00c1xE\u0301 \u4e00XÉb"),
            (Tokens{"5:a", "7:b", "5:\u00c1", "8:xE", "1:\u4e00", "8:XÉ", "6:b"}));
  EXPECT_EQ(placed(R"({"content": "Xé", "special": true})", "a Xé xé"), (Tokens{"5:a", "8:Xé", "1:xé"}));
}

// A store of tokens is taken again where the digest is the same.
TEST(AddedTokens, HaveTheirOptionsInTheDigest) {
  std::set<std::uint64_t> digests;
  for (const char* const options : {"", R"(, "lstrip": true)", R"(, "rstrip": true)", R"(, "single_word": true)",
                                    R"(, "special": true, "normalized": true)", R"(, "normalized": false)"})
    digests.insert(with_token(R"({"content": "x")" + std::string(options) + "}")->digest());
  EXPECT_EQ(digests.size(), 6u);
}

TEST(AddedTokens, WithIdsThatTransformersWouldNotGiveAreRefused) {
  const auto refused = [](const std::string& added, const std::string& words) {
    EXPECT_TRUE(test::fails([&] { placed(added, "a"); }, words));
  };
  refused(R"({"content": "b"})", "\"b\" has id 8, but Transformers gives it 6");
  refused(R"({"content": "x"}, "10": {"content": "y"})", "\"y\" has id 10, but Transformers gives it 9");
  refused(R"({"content": "\u0301"})", "normalising leaves nothing");
}

// As the tokenizers library: a word that is found within another is skipped whole, and space that a token has taken is
// no place for the next one's text.
TEST(AddedTokens, AreFoundFromTheLeft) {
  const auto found = [](const std::vector<AddedToken>& tokens, std::string_view text) {
    const AddedTokens added(tokens, false);
    std::string all;
    for (AddedMatch match; match.next < text.size();) {
      const std::size_t begin = match.end;
      match = added.find(text, match);
      all += std::string(text.substr(begin, match.begin - begin)) + "|";
      if (match.id >= 0) all += std::to_string(match.id) + "|";
    }
    return all;
  };
  AddedToken word, part, wide, space;
  word.text = "abc", word.id = 1, word.is_word = true;
  part.text = "b", part.id = 2;
  wide.text = "w", wide.id = 3, wide.takes_space_after = wide.takes_space_before = true;
  EXPECT_EQ(found({word, part}, "abc abcd b"), "|1| abcd |2|");
  EXPECT_EQ(found({word, part}, "\u00e9abc-abc_"), "\u00e9abc-abc_|");
  EXPECT_EQ(found({wide, part}, "a w  b w w"), "a|3||2||3||3|");
  space.text = " b", space.id = 4;
  EXPECT_EQ(found({wide, space}, "w b"), "|3||4|");
  AddedToken special = part;
  part.special = false, special.special = true, special.id = 5;
  EXPECT_EQ(found({part, special}, "b"), "|5|");
}

}  // namespace
}  // namespace bascule
