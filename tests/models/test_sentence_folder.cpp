// SPDX-License-Identifier: Apache-2.0
#include "src/models/sentence_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kWidth = 12, kRows = 34;

constexpr char kOldModules[] =
    R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";
constexpr char kNewModules[] =
    R"([{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
 {"path": "1_Pooling", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"},
 {"path": "2_Normalize", "type": "sentence_transformers.base.modules.normalize.Normalize"}])";
constexpr char kOldPooling[] = R"({"word_embedding_dimension": 12, "pooling_mode_cls_token": true,
 "pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": false, "pooling_mode_mean_sqrt_len_tokens": false})";
constexpr char kNewPooling[] = R"({"embedding_dimension": 12, "pooling_mode": "max", "include_prompt": true})";
constexpr char kNewCall[] = R"({"transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
 "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}})";

TextShape shape(std::int32_t first_position = 0) {
  TextShape text;
  text.max_positions = kRows;
  text.positions.first = first_position;
  return text;
}

// A folder with these files.
struct SentenceFiles {
  explicit SentenceFiles(const std::vector<std::pair<std::string, std::string>>& files) {
    for (const auto& [name, text] : files) set(name, text);
  }
  void set(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder.path() + "/" + name).parent_path());
    folder.write(name, text);
  }
  SentenceFolder read(std::int32_t first_position = 0) const {
    return read_sentence_folder(folder.path(), kWidth, shape(first_position));
  }
  std::string refusal() const {
    return error_of([this] { read(); });
  }
  TemporaryFolder folder;
};

SentenceFiles old_folder() {
  return SentenceFiles({{"modules.json", kOldModules},
                        {"1_Pooling/config.json", kOldPooling},
                        {"sentence_bert_config.json", R"({"max_seq_length": 20, "do_lower_case": true})"},
                        {"tokenizer_config.json", R"({"model_max_length": 16})"}});
}

TEST(SentenceFolder, TheOldLayoutIsRead) {
  const SentenceFolder read = old_folder().read();
  EXPECT_TRUE(read.has_modules && read.normalize && read.include_prompt && read.lower_case);
  EXPECT_EQ(read.body, read.folder);
  EXPECT_EQ(read.pooling, Pooling::kCls);
  EXPECT_EQ(read.similarity, Similarity::kCosine);
  EXPECT_EQ(sentence_facts(read), "cls pooling, norm, 20 tokens (max_seq_length of sentence_bert_config.json)");
}

TEST(SentenceFolder, TheNewLayoutHasItsLengthInTheTokenizersFile) {
  const SentenceFiles files({{"modules.json", kNewModules},
                             {"1_Pooling/config.json", kNewPooling},
                             {"sentence_bert_config.json", kNewCall},
                             {"tokenizer_config.json", R"({"model_max_length": 16})"},
                             {"config_sentence_transformers.json",
                              R"({"model_type": "SentenceTransformer", "similarity_fn_name": "dot",
                                  "prompts": {"query": "find: ", "passage": "text: "}, "default_prompt_name": "passage"})"}});
  const SentenceFolder read = files.read();
  EXPECT_EQ(sentence_facts(read), "max pooling, norm, 16 tokens (model_max_length of tokenizer_config.json)");
  EXPECT_EQ(read.similarity, Similarity::kDot);
  EXPECT_FALSE(read.lower_case);
  const std::string query = "query", document = "document", none, other = "other";
  EXPECT_EQ(prompt_named(read, &query), "find: ");
  EXPECT_EQ(prompt_named(read, &document), "");  // as the library adds it to every model
  EXPECT_EQ(prompt_named(read, nullptr), "text: ");
  EXPECT_EQ(prompt_named(read, &none), "");
  EXPECT_NE(error_of([&] { prompt_named(read, &other); }, ErrorKind::kSettings)
                .find("has no prompt \"other\"; it has \"document\", \"passage\" and \"query\""),
            std::string::npos);
}

TEST(SentenceFolder, AFolderOfABodyHasMeanPoolingAndNoNorm) {
  const SentenceFolder read = SentenceFiles({}).read();
  EXPECT_FALSE(read.has_modules);
  EXPECT_EQ(sentence_facts(read), "mean pooling, no norm (no modules.json), 34 tokens (the positions of config.json)");
}

TEST(SentenceFolder, TheBodyMayLieBelow) {
  SentenceFiles files = old_folder();
  std::string modules = kOldModules;
  modules.replace(modules.find("\"path\": \"\""), 10, "\"path\": \"0_Transformer\"");
  files.set("modules.json", modules);
  files.set("0_Transformer/sentence_bert_config.json", R"({"max_seq_length": 7})");
  EXPECT_EQ(body_folder(files.folder.path()), files.folder.path() + "/0_Transformer");
  EXPECT_EQ(files.read().body, files.folder.path() + "/0_Transformer");
  EXPECT_EQ(files.read().max_seq_length, 7);
  EXPECT_EQ(body_folder(files.folder.path() + "/1_Pooling"), files.folder.path() + "/1_Pooling");
}

// As the library finds it: the key of the body's file as it is, else the smaller of the tokenizer's and the table's.
TEST(SentenceFolder, TheLengthFollowsTheLibrarysRule) {
  struct Case {
    const char *call, *tokenizer;
    std::int32_t first_position;
    std::int64_t length;
  };
  for (const Case& one : {Case{R"({"max_seq_length": 9})", R"({"model_max_length": 5})", 0, 9},
                          {R"({"max_seq_length": null})", R"({"model_max_length": 5})", 0, 5},
                          {"{}", R"({"model_max_length": 1000000000000000019884624838656})", 0, kRows},
                          {"{}", "{}", 2, kRows - 2},
                          {"{}", R"({"model_max_length": 33})", 2, kRows - 2},
                          {R"({"max_seq_length": 32})", "{}", 2, 32}}) {
    const SentenceFiles files({{"sentence_bert_config.json", one.call}, {"tokenizer_config.json", one.tokenizer}});
    EXPECT_EQ(files.read(one.first_position).max_seq_length, one.length) << one.call << one.tokenizer;
  }
  const SentenceFiles other({});
  other.set("sentence_roberta_config.json", R"({"max_seq_length": 9})");
  EXPECT_EQ(other.read().length_source, "max_seq_length of sentence_roberta_config.json");
}

TEST(SentenceFolder, ANewPoolingModeBeatsTheOldFlags) {
  const SentenceFiles files = old_folder();
  files.set("1_Pooling/config.json",
            R"({"embedding_dimension": 12, "pooling_mode": ["mean"], "pooling_mode_cls_token": true})");
  EXPECT_EQ(files.read().pooling, Pooling::kMean);
}

TEST(SentenceFolder, APromptThatThePoolingLeavesOutIsRefusedWhereItIsUsed) {
  const SentenceFiles files = old_folder();
  files.set("1_Pooling/config.json", R"({"embedding_dimension": 12, "pooling_mode": "mean", "include_prompt": false})");
  files.set("config_sentence_transformers.json", R"({"prompts": {"query": "find: "}})");
  const SentenceFolder read = files.read();
  const std::string query = "query", document = "document";
  EXPECT_EQ(prompt_named(read, nullptr), "");
  EXPECT_EQ(prompt_named(read, &document), "");
  EXPECT_NE(error_of([&] { prompt_named(read, &query); }).find("include_prompt is false"), std::string::npos);
}

// The file that is changed, its text, and a part of the line.
TEST(SentenceFolder, FoldersThatWouldGiveOtherVectorsAreRefusedByName) {
  const auto modules = [](const std::string& third) {
    std::string text = kOldModules;
    return text.replace(text.find("sentence_transformers.models.Normalize"), 38, third);
  };
  const std::string pooling = R"("word_embedding_dimension": 12, "pooling_mode)";
  struct Case {
    const char* file;
    std::string text, line;
  };
  for (const Case& one : {
           Case{"modules.json", "{}", "is not a list of modules"},
           {"modules.json", "[]", "its first module is no Transformer"},
           {"modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"}])", "has no Pooling"},
           {"modules.json", R"([{"path": "../x", "type": "sentence_transformers.models.Transformer"}])",
            "it must be a folder below this one"},
           {"modules.json", modules("sentence_transformers.models.Dense"),
            "module 2 of type \"sentence_transformers.models.Dense\" is not supported"},
           {"modules.json", modules("my_code.Normalize"), "module 2 of type \"my_code.Normalize\" is not supported"},
           {"modules.json", modules("sentence_transformers.models.Pooling"), "module 2 is another Pooling"},
           {"1_Pooling/config.json", R"({"pooling_mode": "mean"})", "\"word_embedding_dimension\""},
           {"1_Pooling/config.json", R"({"embedding_dimension": 13, "pooling_mode": "mean"})",
            "embedding_dimension = 13, but the rows of the model have 12 numbers"},
           {"1_Pooling/config.json", "{" + pooling + R"(": "lasttoken"})",
            "pooling_mode \"lasttoken\" is not supported; mean, cls and max are supported"},
           {"1_Pooling/config.json", "{" + pooling + R"(_cls_token": true, "pooling_mode_max_tokens": true})",
            "several poolings, cls and max, are not supported"},
           {"1_Pooling/config.json", "{" + pooling + R"(": ["mean", "max"]})", "several poolings, mean and max"},
           {"1_Pooling/config.json", R"({"word_embedding_dimension": 12})", "names no pooling"},
           {"1_Pooling/config.json", "{" + pooling + R"(": "mean", "rows": 3})", "the key \"rows\" is not known"},
           {"sentence_bert_config.json", R"({"max_seq_length": 35})",
            "max_seq_length of sentence_bert_config.json is 35, but the model has positions for 34 tokens"},
           {"sentence_bert_config.json", R"({"max_seq_length": 1})", "is 1; a text has two special tokens"},
           {"sentence_bert_config.json", R"({"processing_kwargs": {"text": {"padding": true}}})",
            "processing_kwargs = {\"text\":{\"padding\":true}} is not supported"},
           {"sentence_bert_config.json", R"({"query_length": 32})", "query_length = 32 is not supported"},
           {"sentence_bert_config.json", R"({"module_output_name": "sentence_embedding"})", "module_output_name"},
           {"config_sentence_transformers.json", R"({"model_type": "SparseEncoder"})",
            "model_type = \"SparseEncoder\" is not supported"},
           {"config_sentence_transformers.json", R"({"truncate_dim": 8})", "truncate_dim = 8 is not supported"},
           {"config_sentence_transformers.json", R"({"similarity_fn_name": "euclidean"})",
            "similarity_fn_name = \"euclidean\" is not supported; cosine and dot are"},
           {"config_sentence_transformers.json", R"({"default_prompt_name": "passage"})",
            "default_prompt_name = \"passage\", but prompts has no such name"},
       }) {
    const SentenceFiles files = old_folder();
    files.set(one.file, one.text);
    const std::string line = files.refusal();
    EXPECT_NE(line.find(one.line), std::string::npos) << one.line << "\n" << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST(SentenceFolder, WhatIsWrittenReadsBackToTheSame) {
  SentenceFolder folder;
  folder.pooling = Pooling::kMax;
  folder.normalize = folder.lower_case = true;
  folder.max_seq_length = 21;
  folder.prompts = {{"query", "find: "}, {"document", ""}};
  folder.default_prompt = "query";
  folder.similarity = Similarity::kDot;
  for (const bool include : {true, false}) {
    folder.include_prompt = include;
    const SentenceFiles files({});
    for (const NamedText& file : sentence_files(folder, kWidth)) files.set(file.name, file.value);
    const SentenceFolder read = files.read();
    EXPECT_EQ(read.pooling, folder.pooling);
    EXPECT_TRUE(read.normalize && read.lower_case);
    EXPECT_EQ(read.include_prompt, include);
    EXPECT_EQ(read.max_seq_length, 21);
    EXPECT_EQ(read.prompts, folder.prompts);
    EXPECT_EQ(read.default_prompt, "query");
    EXPECT_EQ(read.similarity, Similarity::kDot);
  }
}

}  // namespace
}  // namespace bascule::test
