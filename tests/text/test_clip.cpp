// SPDX-License-Identifier: Apache-2.0
// CLIP's tokenizer against the ids of Transformers' CLIPTokenizer.
#include "src/text/clip.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::Seeded;
using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

const std::string kData = std::string(BASCULE_TEST_DATA) + "/tokenizer/";
const std::string kFolder = kData + "clip";

Json read_data(const std::string& name) { return read_json_file(kData + name); }

void copy_files(const std::vector<std::string>& names, const TemporaryFolder& folder) {
  for (const std::string& name : names) std::filesystem::copy_file(kFolder + "/" + name, folder.path() + "/" + name);
}

Ids ids_of(const Json& ids) {
  Ids result;
  for (const Json& id : ids) result.push_back(static_cast<std::int32_t>(id.integer()));
  return result;
}

void expect_all_cases(const std::string& folder) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder);
  const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(folder);
  const Json cases = read_data("clip_cases.json");
  ASSERT_EQ(cases["cases"].size(), 200u);
  for (const Json& row : cases["cases"]) {
    const Ids ids = tokenizer->encode(row["text"].string());
    EXPECT_EQ(Json(ids), row["ids"]) << row["text"].string();
    EXPECT_EQ(decoder->decode(ids), row["decoded"].string());
  }
  ASSERT_EQ(cases["shaped"].size(), 8u);
  for (const Json& row : cases["shaped"]) {
    const std::int64_t length = row["max_length"].integer();
    Ids ids = tokenizer->encode(row["text"].string(), length);
    ids.resize(static_cast<std::size_t>(length), tokenizer->pad_id());
    EXPECT_EQ(Json(ids), row["ids"]) << row["text"].string();
  }
}

TEST(Clip, GivesTheIdsOfTransformersForEveryCase) { expect_all_cases(kFolder); }

TEST(Clip, GivesTheSameFromTheVocabularyAndMerges) {
  const TemporaryFolder folder;
  copy_files({"vocab.json", "merges.txt", "tokenizer_config.json"}, folder);
  expect_all_cases(folder.path());
}

// Transformers takes its own pattern, which names the special tokens, whatever the folder has.
TEST(Clip, GivesTheSameFromADocumentWithTheOlderPattern) {
  const TemporaryFolder folder;
  Json document = read_json_file(kFolder + "/tokenizer.json");
  document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
      R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
  folder.write("tokenizer.json", json_text(document));
  expect_all_cases(folder.path());
}

// A folder with one of the forms of clip_forms.json.
void write_form(const Json& form, const TemporaryFolder& folder) {
  const Json* const added = form["files"].find("added_tokens");
  if (added != nullptr) {
    Json document = read_json_file(kFolder + "/tokenizer.json");
    document["added_tokens"] = *added;
    folder.write("tokenizer.json", json_text(document));
  } else {
    copy_files({"vocab.json", "merges.txt"}, folder);
  }
  for (const auto& [name, content] : form["files"].items()) {
    if (name != "added_tokens") folder.write(name, json_text(content));
  }
}

TEST(Clip, FindsSpecialAndAddedTokensByTheRulesOfEachFolder) {
  const Json forms = read_data("clip_forms.json");
  ASSERT_EQ(forms["forms"].size(), 7u);
  for (const Json& form : forms["forms"]) {
    SCOPED_TRACE(form["name"].string());
    const TemporaryFolder folder;
    write_form(form, folder);
    const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
    const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(folder.path());
    EXPECT_EQ(tokenizer->pad_id(), form["pad_id"].integer());
    for (std::size_t i = 0; i < forms["texts"].size(); ++i) {
      const std::string text = forms["texts"][i].string();
      EXPECT_EQ(Json(tokenizer->encode(text)), form["ids"][i]) << text;
      EXPECT_EQ(decoder->decode(ids_of(form["ids"][i])), form["decoded"][i].string()) << text;
    }
    EXPECT_EQ(Json(tokenizer->encode(Texts{"two", "cats"})), form["pair"]);
    if (form["name"].string() != "vocabulary") continue;
    ASSERT_EQ(form["rows"].size(), 300u);
    for (const Json& row : form["rows"]) EXPECT_EQ(decoder->decode(ids_of(row[0])), row[1].string());
  }
}

TEST(Clip, KnowsItsSpecialTokens) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  EXPECT_EQ(tokenizer->vocabulary_size(), 1514);
  EXPECT_EQ(tokenizer->mask_id(), -1);
  const Span<const std::int32_t> special = tokenizer->special_ids();
  EXPECT_EQ(Ids(special.begin(), special.end()), (Ids{1512, 1513}));
  const std::vector<std::string> texts = load_token_texts(kFolder);
  ASSERT_EQ(texts.size(), 1514u);
  EXPECT_EQ(texts[0], "!");
  EXPECT_EQ(texts[256], "!</w>");
  EXPECT_EQ(texts[1513], "<|endoftext|>");
}

// The forms of a folder agree in all that a resume compares; another pad token is another tokenizer.
TEST(Clip, HasADigestOfWhatItsFilesSay) {
  const TemporaryFolder same, other;
  copy_files({"vocab.json", "merges.txt", "tokenizer_config.json"}, same);
  copy_files({"vocab.json", "merges.txt"}, other);
  other.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer", "pad_token": "!"})");
  EXPECT_EQ(load_tokenizer(same.path())->digest(), load_tokenizer(kFolder)->digest());
  EXPECT_NE(load_tokenizer(other.path())->digest(), load_tokenizer(kFolder)->digest());
}

// A vocabulary without the letter "b", and without "a" at the end of a piece.
TEST(Clip, TakesTheUnknownTokenForLettersThatTheVocabularyLacks) {
  const TemporaryFolder folder;
  folder.write("vocab.json", R"({"a": 0, "c</w>": 1, "ac</w>": 2, "<|startoftext|>": 3, "<|endoftext|>": 4})");
  folder.write("merges.txt", "#version: 0.2\na c</w>\n");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->encode("ac"), (Ids{3, 2, 4}));
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{3, 0, 4, 1, 4}));
  EXPECT_EQ(tokenizer->encode("aca b"), (Ids{3, 0, 4, 4, 4, 4}));
}

// What the working memory is made for.
TEST(Clip, NormalisedTextHasAtMostThreeTimesTheBytes) {
  std::size_t most = 0;
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    char bytes[4];
    const std::size_t count = put_utf8(c, bytes);
    const std::string normalised = normalised_clip_text({bytes, count});
    ASSERT_LE(normalised.size(), clip_text_bytes(count)) << c;
    most = std::max(most, normalised.size() / count);
  }
  EXPECT_EQ(most, 3u);
  EXPECT_EQ(normalised_clip_text("I\u0307 \t\u3000\u0130 \u03a3\u03a3 A\u030a\n"),
            "i\u0307 i\u0307 \u03c3\u03c3 \u00e5 ");
}

TEST(Clip, EncodesIntoMemoryOfTheCallerAtAnyAlignment) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  const std::string text = "A photo of a \u0130 cafe\u0301 <|EndOfText|> \xF0\x9D\x85\xA0";
  for (std::size_t offset = 0; offset < 9; ++offset) {
    const std::size_t size = tokenizer->scratch_bytes(text.size());
    std::vector<std::byte> scratch(size + offset);
    Ids ids(77);
    Encoded encoded;
    ASSERT_TRUE(tokenizer->encode_into({text}, ids, &encoded, {scratch.data() + offset, size}).ok());
    ids.resize(static_cast<std::size_t>(encoded.tokens));
    EXPECT_EQ(ids, tokenizer->encode(text));
    const Status status = tokenizer->encode_into({text + "!"}, ids, &encoded, {scratch.data() + offset, size});
    EXPECT_EQ(status.code, StatusCode::kBadSample);
    EXPECT_EQ(status.detail[1], Tokenizer::kPieceTooLong);
  }
}

// Ids in any order are bytes in any order.
TEST(Clip, DecodesAnyIdsToUtf8InTheSpaceThatItNames) {
  const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(kFolder);
  Seeded random;
  for (int round = 0; round < 2000; ++round) {
    Ids ids;
    for (std::int64_t i = random.integer(0, 12); i > 0; --i)
      ids.push_back(static_cast<std::int32_t>(random.integer(-2, 1520)));
    const std::string text = decoder->decode(ids);
    ASSERT_EQ(first_invalid_utf8(text), text.size());
    ASSERT_LE(text.size(), ids.size() * decoder->most_bytes_of_token());
    std::string half(text.size() / 2, '\0');
    ASSERT_EQ(decoder->decode_into(ids, {half.data(), half.size()}), text.size());
    ASSERT_EQ(half, text.substr(0, half.size()));
  }
}

void expect_refused(const TemporaryFolder& folder, const std::string& file, const std::string& problem) {
  try {
    load_tokenizer(folder.path());
    ADD_FAILURE() << "taken, but should be refused: " << problem;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(error.where().find(file), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
  }
}

TEST(Clip, RefusesAPipelineThatIsNotClips) {
  const Json good = read_json_file(kFolder + "/tokenizer.json");
  const auto expect = [&](const std::string& problem, auto change) {
    Json document = good;
    change(document);
    const TemporaryFolder folder;
    folder.write("tokenizer.json", json_text(document));
    expect_refused(folder, "tokenizer.json", problem);
  };
  expect("the normalizer is \"NFC\"", [](Json& d) { d["normalizer"]["type"] = "NFC"; });
  expect("the steps of the normalizer", [](Json& d) { d["normalizer"]["normalizers"][0]["type"] = "NFKC"; });
  expect("one space of white space", [](Json& d) { d["normalizer"]["normalizers"][1]["content"] = "_"; });
  const auto cutter = [](Json& d, std::size_t i) -> Json& { return d["pre_tokenizer"]["pretokenizers"][i]; };
  expect("the steps of the pre_tokenizer", [&](Json& d) { cutter(d, 0)["type"] = "Whitespace"; });
  expect("pattern is not CLIP's", [&](Json& d) { cutter(d, 0)["pattern"]["Regex"] = R"([\p{N}]+)"; });
  expect("pattern is not CLIP's", [&](Json& d) { cutter(d, 0)["invert"] = false; });
  expect("ByteLevel is not CLIP's", [&](Json& d) { cutter(d, 1)["add_prefix_space"] = true; });
  expect("the post_processor is \"ByteLevel\"", [](Json& d) { d["post_processor"]["type"] = "ByteLevel"; });
  expect("fuse_unk is true", [](Json& d) { d["model"]["fuse_unk"] = true; });
}

TEST(Clip, RefusesSpecialTokensThatTheVocabularyLacks) {
  for (const auto& [text, problem] :
       {std::pair<const char*, const char*>{R"("pad_token": "<pad>")", "no token \"<pad>\""},
        {R"("bos_token": "<s>")", "no token \"<s>\""},
        {R"("pad_token": 5)", "pad_token is neither a string nor an object"},
        {R"("pad_token": "")", "pad_token is empty"},
        {R"("extra_special_tokens": ["<x>"])", "no token \"<x>\""},
        {R"("extra_special_tokens": [], "additional_special_tokens": ["<x>"])", "no token \"<x>\""},
        {R"("added_tokens_decoder": {"x": {"content": "<x>"}})", "added_tokens_decoder"}}) {
    const TemporaryFolder folder;
    copy_files({"vocab.json", "merges.txt"}, folder);
    folder.write("tokenizer_config.json", std::string(R"({"tokenizer_class": "CLIPTokenizer", )") + text + "}");
    expect_refused(folder, std::string(problem).find("no token") == 0 ? "vocab.json" : "tokenizer_config.json",
                   problem);
  }
}

}  // namespace
}  // namespace bascule
