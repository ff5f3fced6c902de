// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/support/reference_dir.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_tokenizer {
namespace {

using test::reference_dir;
using test::Seeded;
using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

struct Named {
  std::string key;  // in cases.json
  std::string folder;
};

std::vector<Named> tokenizers() {
  return {{"small", reference_dir() + "/emoji-captions/tokenizer"},
          {"large", reference_dir() + "/tokenizer/roberta-50k"}};
}

const Json& cases() {
  static const Json document = read_json_file(reference_dir() + "/tokenizer/cases.json");
  return document;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

void expect_all_cases(const Tokenizer& tokenizer, const std::string& key) {
  for (const Json& row : cases()["cases"]) {
    const std::string text = row["text"].string();
    ASSERT_EQ(Json(tokenizer.encode(text)), row[key]) << key << ": " << text;
  }
}

TEST(Tokenizer, GivesTheIdsOfTransformersForEveryCase) {
  for (const Named& named : tokenizers()) expect_all_cases(*load_tokenizer(named.folder), named.key);
}

TEST(Tokenizer, GivesTheSameIdsFromVocabularyAndMergesAlone) {
  for (const Named& named : tokenizers()) {
    TemporaryFolder folder;
    for (const char* name : {"vocab.json", "merges.txt"}) {
      std::filesystem::copy_file(named.folder + "/" + name, folder.path() + "/" + name);
    }
    expect_all_cases(*load_tokenizer(folder.path()), named.key);
  }
}

TEST(Tokenizer, CutsOnTheRightAndKeepsBothEnds) {
  for (const Named& named : tokenizers()) {
    const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(named.folder);
    for (const Json& row : cases()["shaped"]) {
      Ids expected;
      const Json& shaped = row[named.key];
      for (std::size_t i = 0; i < shaped["input_ids"].size(); ++i) {
        if (shaped["attention_mask"][i] == 1)
          expected.push_back(static_cast<std::int32_t>(shaped["input_ids"][i].integer()));
      }
      const std::int64_t max_length = row["max_length"].integer();
      EXPECT_EQ(tokenizer->encode(row["text"].string(), max_length), expected) << row["text"].string();
    }
  }
}

// The emoji tokenizer, whose pairs are put together by this post-processor.
std::unique_ptr<const Tokenizer> with_post_processor(const std::string& type) {
  TemporaryFolder folder;
  const std::string file = std::string(BASCULE_TEST_DATA) + "/emoji-captions/tokenizer/tokenizer.json";
  Json document = read_json_file(file);
  document["post_processor"]["type"] = type;
  folder.write("tokenizer.json", json_text(document));
  return load_tokenizer(folder.path());
}

TEST(Tokenizer, MakesPairsAsTransformersDoes) {
  const Json goldens = read_json_file(std::string(BASCULE_TEST_DATA) + "/tokenizer/pairs.json");
  for (const char* processor : {"RobertaProcessing", "BertProcessing"}) {
    const std::unique_ptr<const Tokenizer> tokenizer = with_post_processor(processor);
    for (const Json& row : goldens[processor]) {
      const Json& pair = goldens["pairs"][static_cast<std::size_t>(row["pair"].integer())];
      const std::string &first = pair[std::size_t{0}].string(), &second = pair[std::size_t{1}].string();
      const std::int64_t max_length = row["max_length"].integer();
      Ids ids(max_length > 0 ? static_cast<std::size_t>(max_length) : 100), types;
      std::vector<std::byte> scratch(tokenizer->scratch_bytes(std::max(first.size(), second.size())));
      Encoded encoded;
      ASSERT_TRUE(tokenizer->encode_into({first, second}, ids, &encoded, scratch).ok());
      ids.resize(static_cast<std::size_t>(encoded.tokens));
      for (std::int64_t i = 0; i < encoded.tokens; ++i)
        types.push_back(i < encoded.second_begin ? 0 : tokenizer->second_type());
      EXPECT_EQ(json_text(Json(ids)), json_text(row["ids"])) << json_text(row);
      EXPECT_EQ(json_text(Json(types)), json_text(row["types"])) << json_text(row);
    }
  }
}

// A kind with a byte's value twice for each byte, and one special token.
class Doubling final : public Tokenizer {
 public:
  Doubling() : Tokenizer(facts()) {}
  std::size_t scratch_bytes(std::size_t) const noexcept override { return 0; }

 private:
  static TokenizerFacts facts() {
    TokenizerFacts facts;
    facts.between = facts.after = {300};
    return facts;
  }
  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte>) const noexcept override {
    for (std::size_t i = 0; i < text.size() && !output.is_done(); ++i) {
      for (int twice = 0; twice < 2; ++twice) output.add(static_cast<unsigned char>(text[i]));
    }
    return ok_status();
  }
};

TEST(Tokenizer, TakesAKindWithOtherSpecialTokensAndMoreTokensThanBytes) {
  const Doubling tokenizer;
  EXPECT_EQ(tokenizer.encode(""), (Ids{300}));
  EXPECT_EQ(tokenizer.encode("abcde"), (Ids{97, 97, 98, 98, 99, 99, 100, 100, 101, 101, 300}));
  EXPECT_EQ(tokenizer.encode("abcde", 6), (Ids{97, 97, 98, 98, 99, 300}));
  Ids ids(8);
  Encoded encoded;
  ASSERT_TRUE(tokenizer.encode_into({"abc", "d"}, ids, &encoded, Span<std::byte>()).ok());
  EXPECT_EQ(ids, (Ids{97, 97, 98, 98, 300, 100, 100, 300}));
  EXPECT_EQ(encoded.second_begin, 5);
}

TEST(Tokenizer, RefusesWhatIsNotUtf8) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizers()[0].folder);
  for (const Json& hex : cases()["invalid_utf8_hex"]) {
    EXPECT_THROW(tokenizer->encode(from_hex(hex.string())), Error) << hex.string();
  }
  try {
    tokenizer->encode("caf\xC3\xA9 \xFF");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(error.problem(), "byte 6 is not UTF-8");
  }
}

TEST(Tokenizer, KnowsTheSpecialTokens) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizers()[1].folder);
  EXPECT_EQ(tokenizer->encode(""), (Ids{0, 2}));
  EXPECT_EQ(tokenizer->special_tokens(false), 2);
  EXPECT_EQ(tokenizer->special_tokens(true), 4);
  EXPECT_EQ(tokenizer->pad_id(), 1);
  EXPECT_EQ(tokenizer->mask_id(), 50264);
  EXPECT_EQ(tokenizer->vocabulary_size(), 50265);
  const Span<const std::int32_t> special = tokenizer->special_ids();
  EXPECT_EQ(Ids(special.begin(), special.end()), (Ids{0, 1, 2, 3, 50264}));
}

TEST(Tokenizer, TokensHaveTheTextOfTheirFiles) {
  const std::vector<std::string> texts = load_token_texts(tokenizers()[1].folder);
  ASSERT_EQ(texts.size(), 50265u);
  EXPECT_EQ(texts[0], "<s>");
  EXPECT_EQ(texts[50264], "<mask>");
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizers()[1].folder);
  std::string joined;
  for (const std::int32_t id : tokenizer->encode("two cats, \u00e9"))
    joined += texts[static_cast<std::size_t>(id)] + "|";
  EXPECT_EQ(joined, "<s>|two|\u0120cats|,|\u0120\u00c3\u00a9|</s>|");

  TemporaryFolder folder;
  folder.write("vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "a": 5})");
  folder.write("merges.txt", "");
  folder.write("added_tokens.json", R"({"<new>": 7})");
  EXPECT_EQ(load_token_texts(folder.path()),
            (std::vector<std::string>{"<s>", "<pad>", "</s>", "", "", "a", "", "<new>"}));
}

// A long run without a space is one piece: merging must take n log n, and a cut must not change what stands before it.
TEST(Tokenizer, CutsALongPieceAsIfItHadMergedAllOfIt) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizers()[0].folder);
  Seeded random;
  std::string text;
  for (int i = 0; i < 200000; ++i) text.push_back(static_cast<char>('a' + random.integer(0, 25)));
  const Ids all = tokenizer->encode(text);
  const Ids cut = tokenizer->encode(text, 100);
  ASSERT_GT(all.size(), 1000u);
  EXPECT_EQ(Ids(all.begin(), all.begin() + 99), Ids(cut.begin(), cut.begin() + 99));
  EXPECT_EQ(cut.size(), 100u);
}

TEST(Tokenizer, EncodesIntoMemoryOfTheCaller) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizers()[0].folder);
  const std::string text = "two cats sleeping on a couch <mask> \xF0\x9F\x98\xBA";
  std::vector<std::byte> scratch(tokenizer->scratch_bytes(text.size()));
  for (std::size_t max_length = 2; max_length < 20; ++max_length) {
    Ids ids(max_length, -7);
    Encoded encoded;
    ASSERT_TRUE(tokenizer->encode_into({text}, ids, &encoded, scratch).ok());
    ids.resize(static_cast<std::size_t>(encoded.tokens));
    EXPECT_EQ(ids, tokenizer->encode(text, static_cast<std::int64_t>(max_length)));
  }
}

TEST(Tokenizer, SaysThatAPieceIsTooLongForItsMemory) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizers()[0].folder);
  std::vector<std::byte> scratch(tokenizer->scratch_bytes(20));
  Encoded encoded;
  Ids ids(64);
  const std::string good = "many words, each of them short enough for twenty bytes";
  EXPECT_TRUE(tokenizer->encode_into({good}, ids, &encoded, scratch).ok());
  const std::string bad = "qzxqzxqzx " + std::string(21, 'q');
  const Status status = tokenizer->encode_into({bad}, ids, &encoded, scratch);
  EXPECT_EQ(status.code, StatusCode::kBadSample);
  EXPECT_EQ(status.detail[0], 9);
  EXPECT_EQ(status.detail[1], 1);
}

TEST(Tokenizer, TakesAnyBytesWithoutHarm) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizers()[0].folder);
  Seeded random;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::int64_t i = random.integer(0, 60); i > 0; --i) text.push_back(static_cast<char>(random.integer(0, 255)));
    if (random.chance(0.5)) text = "x <mask>" + text + "</s>\xE2\x80\x83";
    std::vector<std::byte> scratch(tokenizer->scratch_bytes(text.size()));
    Ids ids(16);
    Encoded encoded;
    const Status status = tokenizer->encode_into({text}, ids, &encoded, scratch);
    if (status.ok()) {
      EXPECT_LE(encoded.tokens, 16);
      EXPECT_GE(encoded.tokens, 2);
    }
  }
}

// One line that names the file, for each way in which a folder can be wrong.
void expect_refused(const std::string& folder, const std::string& file, const std::string& problem) {
  try {
    load_tokenizer(folder);
    ADD_FAILURE() << "taken, but should be refused: " << problem;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(error.where().find(file), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
  }
}

const char* const kTinyVocabulary = R"({"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5})";

TEST(Tokenizer, RefusesAMalformedVocabularyOrMerges) {
  TemporaryFolder folder;
  expect_refused(folder.path(), folder.path(), "has neither tokenizer.json nor vocab.json");
  folder.write("vocab.json", kTinyVocabulary);
  expect_refused(folder.path(), "merges.txt", "cannot be read");
  folder.write("merges.txt", "#version: 0.2\na b\n\nab\n");
  expect_refused(folder.path(), "merges.txt:4", "\"ab\" is not a pair of tokens");
  folder.write("merges.txt", "a b\nb a\n");
  expect_refused(folder.path(), "merges.txt", "needs token \"ba\"");
  for (const char* merges : {"a b\n", "#version: 0.2\r\na b\r\n"}) {
    folder.write("merges.txt", merges);
    EXPECT_EQ(load_tokenizer(folder.path())->encode("abba"), (Ids{0, 5, 4, 3, 2}));
  }
  folder.write("vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 3, "ab": 5})");
  expect_refused(folder.path(), "vocab.json", "\"a\" and \"b\" share id 3");
  folder.write("vocab.json", R"({"<s>": 0, "<pad>": 1, "a": 3, "b": 4, "ab": 5})");
  expect_refused(folder.path(), "vocab.json", "no token \"</s>\"");
  folder.write("vocab.json", R"({"<s>": -1})");
  expect_refused(folder.path(), "vocab.json", "the id of token \"<s>\" is -1");
  folder.write("vocab.json", R"(["a"])");
  expect_refused(folder.path(), "vocab.json", "not an object");
  folder.write("vocab.json", R"({"a": 1,)");
  expect_refused(folder.path(), "vocab.json", "JSON");
}

TEST(Tokenizer, RefusesAnotherKindOfTokenizer) {
  const std::string head =
      R"({"model": {"type": "BPE", "vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3}, "merges": []})";
  const std::string splitter = R"(, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false})";
  const std::string ending =
      R"(, "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})";
  TemporaryFolder folder;
  folder.write("tokenizer.json", head + splitter + ending + "}");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("aba"), (Ids{0, 3, 3, 2}));  // a byte that is no token is left out
  folder.write("tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {}}})");
  expect_refused(
      folder.path(), "tokenizer.json",
      "a WordLevel tokenizer is not supported; use one of: byte-level BPE (RoBERTa), byte-level BPE (CLIP), WordPiece "
      "(BERT), unigram (T5)");
  folder.write("tokenizer.json", R"({"model": {"type": "BPE", "end_of_word_suffix": "@@"}})");
  expect_refused(folder.path(), "tokenizer.json", "a BPE tokenizer with \"@@\" at the end of words is not supported");
  folder.write("tokenizer.json", head + splitter + ending + R"(, "normalizer": {"type": "NFC"}})");
  expect_refused(folder.path(), "tokenizer.json", "normalizer");
  folder.write("tokenizer.json", head + ending + "}");
  expect_refused(folder.path(), "tokenizer.json", "pre_tokenizer");
  folder.write("tokenizer.json",
               head + R"(, "pre_tokenizer": {"type": "ByteLevel", "use_regex": false})" + ending + "}");
  expect_refused(folder.path(), "tokenizer.json", "use_regex is false");
  for (const auto& [member, problem] :
       {std::pair{R"("dropout": 0.1)", "dropout is not 0"},
        {R"("continuing_subword_prefix": "##")", "continuing_subword_prefix is not empty"},
        {R"("byte_fallback": true)", "byte_fallback is true"},
        {R"("ignore_merges": true)", "ignore_merges is true"},
        {R"("fuse_unk": true)", "fuse_unk is true"}}) {
    const std::string other = std::string(R"({"model": {"type": "BPE", )") + member;
    folder.write("tokenizer.json", other + head.substr(head.find(R"(, "vocab")")) + splitter + ending + "}");
    expect_refused(folder.path(), "tokenizer.json", problem);
  }
  folder.write("tokenizer.json", head + splitter + "}");
  expect_refused(folder.path(), "tokenizer.json", "post_processor");
  folder.write("tokenizer.json", R"({"added_tokens": []})");
  expect_refused(folder.path(), "tokenizer.json", "model");
  folder.write("tokenizer.json", head + splitter + ending + R"(, "added_tokens": [{"id": 9}]})");
  expect_refused(folder.path(), "tokenizer.json", "content");
}

// A space before the text, as tokenizer.json says it, counts without a class alone. Ids of Transformers 5.
TEST(Tokenizer, RobertasClassTakesAddPrefixSpaceFromItsConfigurationAlone) {
  Json document = read_json_file(reference_dir() + "/emoji-captions/tokenizer/tokenizer.json");
  document["pre_tokenizer"]["add_prefix_space"] = true;
  TemporaryFolder folder;
  folder.write("tokenizer.json", json_text(document));
  EXPECT_EQ(load_tokenizer(folder.path())->encode("heart a"), (Ids{0, 401, 493, 2}));
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("heart a"), (Ids{0, 1126, 493, 2}));
}

TEST(Tokenizer, TellsTheKindFromTheVocabularyWhereThereIsNothingElse) {
  TemporaryFolder clip, bert, t5;
  clip.write("vocab.json", kTinyVocabulary);
  clip.write("merges.txt", "a b\n");
  clip.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  expect_refused(clip.path(), "vocab.json", "the vocabulary has no token \"<|startoftext|>\"");
  bert.write("vocab.txt", "[PAD]\n");
  expect_refused(bert.path(), "vocab.txt", "the vocabulary has no token \"[UNK]\"");
  t5.write("spiece.model", "");
  expect_refused(t5.path(), "spiece.model", "is not read: tokenizer.json is missing");
}

TEST(Tokenizer, TakesAddedTokensFromTheFilesBesideTheVocabulary) {
  TemporaryFolder folder;
  folder.write("vocab.json", kTinyVocabulary);
  folder.write("merges.txt", "a b\n");
  folder.write("added_tokens.json", R"({"<mask>": 6})");
  folder.write("tokenizer_config.json",
               R"({"added_tokens_decoder": {"7": {"content": "aa", "rstrip": true, "special": false}}})");
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->mask_id(), 6);
  EXPECT_EQ(tokenizer->vocabulary_size(), 8);
  EXPECT_EQ(tokenizer->encode("abaa \nb"), (Ids{0, 5, 7, 4, 2}));
  EXPECT_EQ(tokenizer->special_ids().size(), 4u);  // <s> <pad> </s> <mask>
}

TEST(Tokenizer, WritesTextsInLowerCaseBeforeAnythingElse) {
  TemporaryFolder folder;
  folder.write("vocab.json", kTinyVocabulary);
  folder.write("merges.txt", "a b\n");
  const std::unique_ptr<const Tokenizer> plain = load_tokenizer(folder.path());
  const std::unique_ptr<const Tokenizer> lower = lower_cased(load_tokenizer(folder.path()));
  EXPECT_EQ(lower->encode("aB AB b"), plain->encode("ab ab b"));
  EXPECT_NE(plain->encode("aB"), plain->encode("ab"));
  // More bytes than the text has: U+0130 becomes two characters of 3 bytes together, U+023A one of 3.
  std::string dotted, lowered;
  for (int i = 0; i < 200; ++i) {
    dotted += "\u0130\u023a";
    lowered += "i\u0307\u2c65";
  }
  EXPECT_EQ(lower->encode(dotted), plain->encode(lowered));
  EXPECT_EQ(lower->encode(dotted, 50), plain->encode(lowered, 50));
  EXPECT_NE(lower->digest(), plain->digest());
  EXPECT_EQ(lower->special_tokens(false), plain->special_tokens(false));
}

TEST(Tokenizer, TakesTheLongestOfSeveralAddedTokensAtOnePlace) {
  TemporaryFolder folder;
  folder.write("vocab.json", kTinyVocabulary);
  folder.write("merges.txt", "a b\n");
  folder.write("added_tokens.json", R"({"<a": 6, "<ab>": 7, "<ab": 8})");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("<ab><ab<ab>b<ab"), (Ids{0, 7, 8, 7, 4, 8, 2}));
}

}  // namespace
}  // namespace bascule::test_tokenizer
