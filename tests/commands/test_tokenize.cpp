// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "src/base/error.h"
#include "src/json/json.h"
#include "tests/support/files.h"
#include "tests/support/reference_dir.h"

namespace bascule {
namespace {

using test::reference_dir;

Json tokenize(const TokenizeArguments& arguments, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  tokenize_streams(arguments, in, out);
  return parse_json(out.str(), "output");
}

TokenizeArguments small_model() {
  TokenizeArguments arguments;
  arguments.model = reference_dir() + "/emoji-captions/tokenizer";
  return arguments;
}

void expect_refused(const TokenizeArguments& arguments, const std::string& input, ErrorKind kind) {
  EXPECT_TRUE(test::fails([&] { tokenize(arguments, input); }, "", kind)) << input;
}

TEST(Tokenize, GivesEveryReferenceFormOfBothTokenizers) {
  const Json cases = read_json_file(reference_dir() + "/tokenizer/cases.json");
  for (const std::string key : {"small", "large"}) {
    TokenizeArguments arguments = small_model();
    if (key == "large") arguments.model = reference_dir() + "/tokenizer/roberta-50k";
    Json texts = Json::array();
    Json expected = Json::array();
    for (const Json& row : cases["cases"]) {
      texts.push_back(row["text"]);
      expected.push_back(row[key]);
    }
    EXPECT_EQ(tokenize(arguments, json_text(texts)), expected);
    for (const Json& row : cases["batches"]) {
      arguments.max_length = row["max_length"].integer();
      arguments.padding = "longest";
      EXPECT_EQ(tokenize(arguments, json_text(row["texts"])), row[key]["input_ids"]);
    }
  }
}

TEST(Tokenize, CutsAndFillsToTheMaximalLength) {
  const Json cases = read_json_file(reference_dir() + "/tokenizer/cases.json");
  for (const Json& row : cases["shaped"]) {
    TokenizeArguments arguments = small_model();
    arguments.max_length = row["max_length"].integer();
    if (row["padding"] == "max_length") arguments.padding = "";
    const Json ids = tokenize(arguments, json_text(Json::array({row["text"]})));
    EXPECT_EQ(ids[0], row["small"]["input_ids"]) << row["text"].string();
  }
}

TEST(Tokenize, FillsToTheLongestWhereNoLengthIsGiven) {
  TokenizeArguments arguments = small_model();
  arguments.padding = "";
  EXPECT_EQ(tokenize(arguments, R"(["a", ""])"), parse_json("[[0, 68, 2], [0, 2, 1]]", "expected"));
  EXPECT_EQ(tokenize(arguments, "[]"), Json::array());
}

TEST(Tokenize, TakesPairs) {
  TokenizeArguments arguments;
  arguments.model = reference_dir() + "/tokenizer/wordpiece";
  const Json cases = read_json_file(reference_dir() + "/tokenizer/wordpiece_cases.json");
  for (const Json& row : cases["pairs"]) {
    arguments.max_length = row["max_length"].integer();
    arguments.padding.reset();
    if (row["padding"] == "max_length") arguments.padding = "max_length";
    EXPECT_EQ(tokenize(arguments, json_text(Json::array({Json::array({row["a"], row["b"]})}))),
              Json::array({row["input_ids"]}));
  }
  arguments = small_model();  // <s> a </s></s> b </s>; a row may be one text
  const Json rows = tokenize(arguments, R"(["two", ["two", "cats"]])");
  EXPECT_EQ(rows[0].size(), 3u);
  EXPECT_GE(rows[1].size(), 6u);
  EXPECT_EQ(rows[1][2], rows[1][3]);
  arguments.max_length = 3;
  expect_refused(arguments, R"([["two", "cats"]])", ErrorKind::kSettings);
  expect_refused(small_model(), R"([["two"]])", ErrorKind::kData);
  expect_refused(small_model(), R"([["two", 3]])", ErrorKind::kData);
  expect_refused(small_model(), "[[\"two\", \"\xff\"]]", ErrorKind::kData);
}

TEST(Tokenize, RefusesWhatIsNoArrayOfUtf8Strings) {
  const TokenizeArguments arguments = small_model();
  for (const char* input : {"", "{", "\"a\"", "{\"a\": 1}", "[1]", "[\"a\", null]", "[\"caf\xE9\"]", "[\"\\ud800\"]"}) {
    expect_refused(arguments, input, ErrorKind::kData);
  }
}

TEST(Tokenize, DecodesIdsOfAUnigramTokenizer) {
  TokenizeArguments arguments;
  arguments.model = std::string(BASCULE_TEST_DATA) + "/tokenizer/unigram";
  const Json cases = read_json_file(std::string(BASCULE_TEST_DATA) + "/tokenizer/unigram_cases.json");
  Json rows = Json::array(), texts = Json::array();
  for (const Json& row : cases["cases"]) {
    rows.push_back(row["ids"]);
    texts.push_back(row["decoded"]);
  }
  arguments.decodes = true;
  EXPECT_EQ(tokenize(arguments, json_text(rows)), texts);
  for (const char* input : {"{}", "[1]", "[[1.5]]", "[[-1]]", "[[\"a\"]]", "[[4294967296]]"})
    expect_refused(arguments, input, ErrorKind::kData);
  arguments.model = small_model().model;
  expect_refused(arguments, "[[1]]", ErrorKind::kData);
  arguments.model = std::string(BASCULE_TEST_DATA) + "/tokenizer/unigram";
  arguments.decodes = false;
  arguments.max_length = 1;
  EXPECT_EQ(json_text(tokenize(arguments, "[\"two cats\"]")), "[[1]]");
}

TEST(Tokenize, ConvertsWithClipsTokenizerBothWays) {
  TokenizeArguments arguments;
  arguments.model = std::string(BASCULE_TEST_DATA) + "/tokenizer/clip";
  const std::string ids = "[[1512,320,908,514,344,1513,1513,1513]]";
  arguments.max_length = 8;
  arguments.padding = "max_length";
  EXPECT_EQ(json_text(tokenize(arguments, "[\"A  shiny\"]")), ids);
  arguments.max_length = 0;
  arguments.padding.reset();
  arguments.decodes = true;
  EXPECT_EQ(json_text(tokenize(arguments, ids)), "[\"a shiny\"]");
}

TEST(Tokenize, RefusesArgumentsThatMeanNothing) {
  TokenizeArguments arguments = small_model();
  arguments.max_length = 1;
  expect_refused(arguments, "[]", ErrorKind::kSettings);
  arguments.max_length = 0;
  arguments.padding = "max_length";
  expect_refused(arguments, "[]", ErrorKind::kSettings);
  arguments.padding = "left";
  expect_refused(arguments, "[]", ErrorKind::kSettings);
  arguments = small_model();
  arguments.model = reference_dir() + "/no-such-folder";
  expect_refused(arguments, "[]", ErrorKind::kData);
}

}  // namespace
}  // namespace bascule
