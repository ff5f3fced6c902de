// SPDX-License-Identifier: Apache-2.0
// WordPiece against the ids of Transformers' BertTokenizer.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"
#include "src/text/unicode_tables.h"
#include "src/text/word_piece_files.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_word_piece {
namespace {

using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

const std::string kFolder = std::string(BASCULE_TEST_DATA) + "/tokenizer/wordpiece";

const Json& cases() {
  static const Json document = read_json_file(std::string(BASCULE_TEST_DATA) + "/tokenizer/wordpiece_cases.json");
  return document;
}

Ids kept_of(const Json& ids, const Json& mask) {
  Ids kept;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (mask[i] == 1) kept.push_back(static_cast<std::int32_t>(ids[i].integer()));
  }
  return kept;
}

void expect_all_cases(const Tokenizer& tokenizer) {
  ASSERT_GE(cases()["cases"].size(), 200u);
  for (const Json& row : cases()["cases"])
    EXPECT_EQ(Json(tokenizer.encode(row["text"].string())), row["ids"]) << row["text"].string();
  for (const Json& row : cases()["shaped"]) {
    EXPECT_EQ(tokenizer.encode(row["text"].string(), row["max_length"].integer()),
              kept_of(row["input_ids"], row["attention_mask"]))
        << row["text"].string();
  }
}

TEST(WordPiece, GivesTheIdsOfTransformersForEveryCase) { expect_all_cases(*load_tokenizer(kFolder)); }

TEST(WordPiece, GivesTheSameFromTheVocabularyAlone) {
  TemporaryFolder folder;
  std::filesystem::copy_file(kFolder + "/vocab.txt", folder.path() + "/vocab.txt");
  expect_all_cases(*load_tokenizer(folder.path()));  // lower case is the default
}

TEST(WordPiece, MakesPairsAsTransformersDoes) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  ASSERT_GE(cases()["pairs"].size(), 50u);
  for (const Json& row : cases()["pairs"]) {
    const std::string &a = row["a"].string(), &b = row["b"].string();
    Ids ids(static_cast<std::size_t>(row["max_length"].integer()));
    std::vector<std::byte> scratch(tokenizer->scratch_bytes(0));
    Encoded encoded;
    ASSERT_TRUE(tokenizer->encode_into({a, b}, ids, &encoded, scratch).ok());
    ids.resize(static_cast<std::size_t>(encoded.tokens));
    EXPECT_EQ(ids, kept_of(row["input_ids"], row["attention_mask"])) << a << " | " << b;
    for (std::int64_t i = 0; i < encoded.tokens; ++i) {
      const std::int64_t type = i < encoded.second_begin ? 0 : tokenizer->second_type();
      EXPECT_EQ(row["token_type_ids"][static_cast<std::size_t>(i)], type) << a << " | " << b;
    }
  }
}

TEST(WordPiece, KnowsItsSpecialTokens) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->mask_id(), 4);
  EXPECT_EQ(tokenizer->vocabulary_size(), 4000);
  EXPECT_EQ(tokenizer->special_ids().size(), 5u);
  const std::vector<std::string> texts = load_token_texts(kFolder);
  EXPECT_EQ(texts.size(), 4000u);
  EXPECT_EQ(texts[4], "[MASK]");
}

TEST(WordPiece, RefusesWhatIsNotUtf8) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  for (const Json& hex : cases()["invalid_utf8_hex"]) {
    std::string text;
    for (std::size_t i = 0; i + 1 < hex.string().size(); i += 2)
      text.push_back(static_cast<char>(std::stoi(hex.string().substr(i, 2), nullptr, 16)));
    EXPECT_THROW(tokenizer->encode(text), Error) << hex.string();
  }
}

// A word of 100 characters may be made of pieces, one of 101 may not, however short its pieces are.
TEST(WordPiece, ALongWordIsUnknown) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  EXPECT_GT(tokenizer->encode(std::string(100, 'a')).size(), 3u);
  EXPECT_EQ(tokenizer->encode(std::string(101, 'a')), (Ids{2, 1, 3}));
}

// The whole of the table that the cases draw from.
TEST(WordPiece, DropsMarksAndLowersCaseAsTheTokenizersLibraryDoes) {
  const Json document = read_json_file(kFolder + "/unicode_classes.json");
  std::vector<std::string> lowered(0x110000);
  std::vector<bool> has_lowered(0x110000, false);
  for (const auto& [hex, text] : document["lowered"].items()) {
    const std::size_t c = static_cast<std::size_t>(std::stoul(hex, nullptr, 16));
    lowered[c] = text.string();
    has_lowered[c] = true;
  }
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    // Hangul goes by arithmetic, and white space has become ' ' before.
    if ((c >= 0xac00 && c < 0xd7a4) || word_piece_class(c) == WordPieceClass::kSpace) continue;
    std::uint32_t out[3];
    const int count = WordPieceNormalizer().code_points(c, out);
    if (!has_lowered[c]) {
      ASSERT_TRUE(count == 1 && out[0] == c) << c;
      continue;
    }
    std::string text;
    for (int i = 0; i < count; ++i) {
      char bytes[4];
      text.append(bytes, put_utf8(out[i], bytes));
    }
    ASSERT_EQ(text, lowered[c]) << c;
  }
}

Json changed(const std::vector<std::string>& keys, const Json& value) {
  Json document = read_json_file(kFolder + "/tokenizer.json");
  Json* at = &document;
  for (const std::string& key : keys) at = &(*at)[key];
  *at = value;
  return document;
}

// Beside vocab.txt.
TEST(WordPiece, RefusesOptionsOfItsConfigurationThatItCannotFollow) {
  for (const auto& [text, said] : {std::pair<const char*, const char*>{
                                       R"({"do_lower_case": false, "strip_accents": true})", "strip_accents = true"},
                                   {R"({"mask_token": ""})", "mask_token is empty"},
                                   {R"({"strip_accents": 1})", "strip_accents is 1"},
                                   {R"({"additional_special_tokens": ["<x>"]})", "no token \"<x>\""}}) {
    const TemporaryFolder folder;
    std::filesystem::copy_file(kFolder + "/vocab.txt", folder.path() + "/vocab.txt");
    folder.write("tokenizer_config.json", text);
    EXPECT_TRUE(test::fails([&] { load_tokenizer(folder.path()); }, said)) << text;
  }
}

// Without tokenizer.json the class counts, or the kind of the model.
TEST(WordPiece, RefusesTheClassAndTheModelOfConfigJsonThatHaveOtherTokenizers) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kFolder + "/vocab.txt", folder.path() + "/vocab.txt");
  for (const auto& [text, said] :
       {std::pair<const char*, const char*>{R"({"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"})",
                                            "config.json: tokenizer_class is \"BertJapaneseTokenizer\""},
        {R"({"model_type": "layoutlm"})", "config.json: the tokenizer of model_type \"layoutlm\""}}) {
    folder.write("config.json", text);
    EXPECT_TRUE(test::fails([&] { load_tokenizer(folder.path()); }, said)) << text;
  }
  folder.write("config.json", R"({"model_type": "bert", "tokenizer_class": "BertTokenizer"})");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("the"), load_tokenizer(kFolder)->encode("the"));
}

TEST(WordPiece, KeepsCaseAndMarksWhereItsConfigurationSaysSo) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kFolder + "/vocab.txt", folder.path() + "/vocab.txt");
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_NE(load_tokenizer(folder.path())->encode("THE"), load_tokenizer(kFolder)->encode("THE"));
  EXPECT_EQ(load_tokenizer(folder.path())->encode("the"), load_tokenizer(kFolder)->encode("the"));
}

// Beside tokenizer.json too, where it is of a class that Transformers builds anew.
TEST(WordPiece, DistilBertsClassTakesItsConfigurationAsBertsDoes) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kFolder + "/tokenizer.json", folder.path() + "/tokenizer.json");
  for (const char* name : {"BertTokenizer", "DistilBertTokenizer", "DistilBertTokenizerFast"}) {
    folder.write("tokenizer_config.json",
                 std::string(R"({"do_lower_case": false, "tokenizer_class": ")") + name + "\"}");
    EXPECT_NE(load_tokenizer(folder.path())->encode("THE"), load_tokenizer(kFolder)->encode("THE")) << name;
  }
}

// Whether marks are dropped is then as the case, not as in tokenizer.json. Ids of Transformers 5.
TEST(WordPiece, DropsMarksWhereItsConfigurationAloneLowersTheCase) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", json_text(changed({"normalizer", "lowercase"}, Json(false))));
  folder.write("tokenizer_config.json", R"({"do_lower_case": true, "tokenizer_class": "BertTokenizer"})");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("CAF\u00c9"), (Ids{2, 1298, 1858, 3}));
}

// As words of their own, which is the default, or as pieces of one word.
TEST(WordPiece, SplitsChineseCharactersUnlessItsConfigurationSaysNo) {
  const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\u4e00\n\u4e8c\n##\u4e8c\n";
  for (const auto& [text, expected] : {std::pair<const char*, Ids>{R"({})", {2, 5, 6, 3}},
                                       {R"({"tokenize_chinese_chars": true})", {2, 5, 6, 3}},
                                       {R"({"tokenize_chinese_chars": false})", {2, 5, 7, 3}}}) {
    const TemporaryFolder folder;
    folder.write("vocab.txt", vocabulary);
    folder.write("tokenizer_config.json", text);
    EXPECT_EQ(load_tokenizer(folder.path())->encode("\u4e00\u4e8c"), expected) << text;
  }
}

// Windows' line ends; of two equal lines the later one counts; what tokenizer.json leaves out has BERT's value.
TEST(WordPiece, FilesThatSayLittleHaveBertsDefaults) {
  const TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\na\r\nb\r\na\r\n");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("A b x"), (Ids{2, 7, 6, 1, 3}));
  const TemporaryFolder bare;
  Json document = read_json_file(kFolder + "/tokenizer.json");
  for (const char* key : {"continuing_subword_prefix", "max_input_chars_per_word", "unk_token"}) {
    Json model = Json::object();
    for (const auto& [name, value] : document["model"].items()) {
      if (name != key) model[name] = value;
    }
    document["model"] = model;
  }
  Json normalizer = Json::object();
  normalizer["type"] = "BertNormalizer";
  document["normalizer"] = normalizer;
  bare.write("tokenizer.json", json_text(document));
  for (const char* text : {"The caf\u00e9 \u4e00\u4e8c", "\U0001f600 x"})
    EXPECT_EQ(load_tokenizer(bare.path())->encode(text), load_tokenizer(kFolder)->encode(text)) << text;
}

// BertTokenizer takes what tokenizer_config.json says; without a class, or with one that takes tokenizer.json as it
// stands, tokenizer.json counts; without a class in a BERT's folder BertTokenizer. By AutoTokenizer of Transformers
// 5.23.
TEST(WordPiece, TheClassDecidesWhichFileCounts) {
  Json kept = read_json_file(kFolder + "/tokenizer.json");
  kept["normalizer"]["strip_accents"] = false;
  Json cased = read_json_file(kFolder + "/tokenizer.json");
  cased["normalizer"]["lowercase"] = false;
  struct Case {
    Json document;
    const char* config;
    const char* model;  // config.json
    Ids ids;            // of "Möchte 中文 ☃"
  };
  const Json whole = read_json_file(kFolder + "/tokenizer.json");
  const Ids lowered = {2, 2222, 472, 3088, 362, 369, 1, 3}, unknown = {2, 1, 362, 369, 1, 3};
  constexpr char kBert[] = R"({"model_type": "bert"})", kOther[] = R"({"model_type": "vit"})";
  for (const Case& one : {
           Case{whole, R"({"strip_accents": false})", "", lowered},
           {whole, R"({"do_lower_case": false})", "", lowered},
           {whole, R"({"tokenize_chinese_chars": false})", "", lowered},
           {kept, R"({"strip_accents": true})", "", unknown},
           {cased, R"({"do_lower_case": true})", "", unknown},
           {whole, R"({"unk_token": "a"})", "", lowered},
           {whole, R"({"strip_accents": false})", kOther, lowered},
           {whole, R"({"strip_accents": false})", kBert, unknown},
           {whole, R"({"do_lower_case": false})", kBert, unknown},
           {cased, "{}", kBert, lowered},
           {kept, "{}", kBert, unknown},  // as the page says; Transformers drops accents here
           {kept, R"({"strip_accents": true})", kBert, lowered},
           {cased, R"({"tokenizer_class": "BertTokenizer"})", "", lowered},
           {cased, R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": true})", kBert, unknown},
           {whole,
            R"({"unk_token": "[MASK]", "tokenizer_class": "BertTokenizer"})",
            "",
            {2, 2222, 472, 3088, 362, 369, 4, 3}},
           {whole, R"({"unk_token": "[MASK]"})", kBert, {2, 2222, 472, 3088, 362, 369, 4, 3}},
           {whole, R"({"unk_token": "[MASK]", "tokenizer_class": "TokenizersBackend"})", kBert, lowered},
       }) {
    const TemporaryFolder folder;
    folder.write("tokenizer.json", json_text(one.document));
    folder.write("tokenizer_config.json", one.config);
    if (*one.model != '\0') folder.write("config.json", one.model);
    EXPECT_EQ(load_tokenizer(folder.path())->encode("M\u00f6chte \u4e2d\u6587 \u2603"), one.ids)
        << one.config << " " << one.model;
  }
  const TemporaryFolder folder;
  folder.write("tokenizer.json", json_text(whole));
  for (const auto& [config, said] : {std::pair{R"({"cls_token": "a"})", "which counts where no class is named"},
                                     {R"({"sep_token": "a", "tokenizer_class": "PreTrainedTokenizerFast"})",
                                      "counts with PreTrainedTokenizerFast"}}) {
    folder.write("tokenizer_config.json", config);
    EXPECT_TRUE(test::fails([&] { load_tokenizer(folder.path()); }, said)) << config;
  }
}

TEST(WordPiece, RefusesAClassByItsNameAndSaysWhichAreSupported) {
  const auto said = [](const char* file, const char* config, const char* model) {
    const TemporaryFolder folder;
    std::filesystem::copy_file(kFolder + "/" + file, folder.path() + "/" + file);
    folder.write("tokenizer_config.json", config);
    folder.write("config.json", model);
    try {
      load_tokenizer(folder.path());
    } catch (const Error& error) {
      return std::string(error.what()).substr(folder.path().size());
    }
    return std::string("taken");
  };
  constexpr char kAlbert[] = R"({"tokenizer_class": "AlbertTokenizer"})", kMpnet[] = R"({"model_type": "mpnet"})";
  const std::string own =
      "BertTokenizer, DistilBertTokenizer, ElectraTokenizer, LxmertTokenizer, MobileBertTokenizer, "
      "SqueezeBertTokenizer";
  const std::string beside =
      ": tokenizer_class is \"AlbertTokenizer\", with which Transformers does not give the ids of this tokenizer.json; "
      "of "
      "this kind " +
      own + " and PreTrainedTokenizerFast are supported";
  const std::string alone =
      ": tokenizer_class is \"AlbertTokenizer\", which is not supported without tokenizer.json; supported are " + own +
      ", ConvBertTokenizer";
  EXPECT_EQ(said("tokenizer.json", kAlbert, "{}"), "/tokenizer_config.json" + beside);
  EXPECT_EQ(said("tokenizer.json", "{}", kAlbert), "/config.json" + beside);
  EXPECT_EQ(said("vocab.txt", kAlbert, "{}"), "/tokenizer_config.json" + alone);
  EXPECT_EQ(said("vocab.txt", "{}", kAlbert), "/config.json" + alone);
  EXPECT_EQ(said("vocab.txt", "{}", kMpnet),
            "/config.json: the tokenizer of model_type \"mpnet\" is not supported without tokenizer.json");
  EXPECT_EQ(said("tokenizer.json", "{}", kMpnet), "taken");
  for (const char* model : {"bert", "distilbert", "electra", "convbert", "lxmert", "mobilebert", "squeezebert"})
    EXPECT_EQ(said("vocab.txt", "{}", ("{\"model_type\": \"" + std::string(model) + "\"}").c_str()), "taken") << model;
}

TEST(WordPiece, TypesOfTokensAreGivenUnlessTheConfigurationLeavesThemOut) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kFolder + "/tokenizer.json", folder.path() + "/tokenizer.json");
  for (const auto& [text, type] : {std::pair<const char*, int>{R"({})", 1},
                                   {R"({"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]})", 1},
                                   {R"({"model_input_names": ["input_ids", "attention_mask"]})", 0},
                                   {R"({"tokenizer_class": "PreTrainedTokenizerFast"})", 1},
                                   {R"({"tokenizer_class": "TokenizersBackend"})", 0},
                                   {R"({"tokenizer_class": "TokenizersBackend",
                                        "model_input_names": ["input_ids", "token_type_ids"]})",
                                    1}}) {
    folder.write("tokenizer_config.json", text);
    EXPECT_EQ(load_tokenizer(folder.path())->second_type(), type) << text;
  }
}

TEST(WordPiece, RefusesATemplateThatIsNotBerts) {
  const Json whole = read_json_file(kFolder + "/tokenizer.json");
  const auto said = [](const Json& document) {
    const TemporaryFolder folder;
    folder.write("tokenizer.json", json_text(document));
    return test::error_of([&] { load_tokenizer(folder.path()); });
  };
  ASSERT_EQ(whole["post_processor"]["type"], "TemplateProcessing");
  for (const auto& [list, place, kind, type] :
       {std::tuple<const char*, std::size_t, const char*, int>{"single", 0, "SpecialToken", 1},
        {"single", 1, "Sequence", 1},
        {"single", 2, "SpecialToken", 1},
        {"pair", 0, "SpecialToken", 1},
        {"pair", 1, "Sequence", 1},
        {"pair", 2, "SpecialToken", 1},
        {"pair", 3, "Sequence", 0},
        {"pair", 4, "SpecialToken", 0}}) {
    Json document = whole;
    document["post_processor"][list][place][kind]["type_id"] = std::int64_t{type};
    EXPECT_NE(said(document).find("template is not BERT's"), std::string::npos) << list << place;
    if (std::string(kind) == "Sequence") continue;
    document = whole;
    document["post_processor"][list][place][kind]["id"] = "[MASK]";
    EXPECT_NE(said(document), "no error") << list << place;
  }
  Json document = whole;
  document["post_processor"] =
      parse_json(R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})", "");
  EXPECT_EQ(said(document), "no error");
  for (const char* wrong : {R"({"type": "BertProcessing", "sep": ["[SEP]"], "cls": ["[CLS]", 2]})",
                            R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": [2, 2]})"}) {
    document["post_processor"] = parse_json(wrong, "");
    EXPECT_NE(said(document).find("is not a pair of token and id"), std::string::npos) << wrong;
  }
}

TEST(WordPiece, RefusesOptionsThatBertDoesNotHave) {
  for (const auto& [document, said] :
       {std::pair<Json, const char*>{changed({"normalizer", "clean_text"}, Json(false)), "clean_text"},
        {changed({"normalizer", "type"}, Json("NFKC")), "normalizer"},
        {changed({"pre_tokenizer", "type"}, Json("Whitespace")), "pre_tokenizer"},
        {changed({"post_processor", "type"}, Json("ByteLevel")), "post_processor"},
        {changed({"model", "continuing_subword_prefix"}, Json("@@")), "continuing_subword_prefix"},
        {changed({"model", "max_input_chars_per_word"}, Json(50)), "max_input_chars_per_word"}}) {
    const TemporaryFolder folder;
    folder.write("tokenizer.json", json_text(document));
    EXPECT_TRUE(test::fails([&] { load_tokenizer(folder.path()); }, said));
  }
}

}  // namespace
}  // namespace bascule::test_word_piece
