// SPDX-License-Identifier: Apache-2.0
// Checks of data that are read from files: a few rows each.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/doctor/data.h"
#include "src/pictures/png_file.h"
#include "src/record/opened_model.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

class Opened : public ::testing::Test {
 protected:
  Settings settings(const std::string& model, const std::string& data) const {
    return read_settings_text("[model]\nfrom_scratch = true\n" + model + "[data]\n" + data +
                                  "[training]\noutput_dir = \"run\"\nper_device_train_batch_size = 1\n",
                              "test.toml", folder_.path(), model_words);
  }
  // BERT, which predicts masked tokens.
  Settings of_texts(const std::string& data, const std::string& head = "masked_lm") const {
    return settings("head = \"" + head + "\"\nmodel_name_or_path = \"" + std::string(BASCULE_TEST_DATA) +
                        "/text-corpus/model\"\ntokenizer_name = \"" + std::string(BASCULE_TEST_DATA) +
                        "/tokenizer/wordpiece\"\n",
                    "max_seq_length = 8\n" + data);
  }
  // BridgeTower with images of 64 pixels a side.
  Settings of_captions(const std::string& data) const {
    const std::string demo = std::string(BASCULE_TEST_DATA) + "/emoji-captions";
    return settings("model_name_or_path = \"" + demo + "/tiny_model\"\ntokenizer_name = \"" + demo + "/tokenizer\"\n",
                    "max_seq_length = 16\n" + data);
  }
  std::vector<SplitTexts> texts_of(const Settings& settings) {
    const OpenedData opened(settings, &findings_);
    return read_texts(opened);
  }

  test::TemporaryFolder folder_;
  std::vector<Finding> findings_;
};

TEST_F(Opened, TextsWithTheMostUnknownTokensAreShown) {
  std::string rows;
  for (const int unknown : {1, 3, 0, 2, 1, 5, 4, 1, 5}) {
    std::string text = "a cat";
    for (int i = 0; i < unknown; ++i) text += " ☃";
    rows += "{\"text\": \"" + text + "\"}\n";
  }
  folder_.write("train.jsonl", rows);
  const std::vector<SplitTexts> texts = texts_of(of_texts("train_file = \"train.jsonl\"\ntext_column = \"text\"\n"));
  ASSERT_EQ(texts.size(), 1U);
  std::vector<std::pair<std::int64_t, std::int64_t>> shown;
  for (const NotedText& text : texts[0].unknown) shown.emplace_back(text.row, text.tokens);
  const std::vector<std::pair<std::int64_t, std::int64_t>> worst = {{5, 5}, {8, 5}, {6, 4}, {1, 3}, {3, 2}, {0, 1}};
  EXPECT_EQ(shown, worst);
}

TEST_F(Opened, SpecialTokensCountWhereASampleIsALine) {
  folder_.write("train.txt", "the cat\nthe cat is here\n\nis here\n");
  const std::string corpus = "train_file = \"train.txt\"\n";
  for (const bool are_lines : {true, false}) {
    const std::vector<SplitTexts> texts = texts_of(of_texts(corpus + (are_lines ? "text_layout = \"lines\"\n" : "")));
    ASSERT_EQ(texts.size(), 1U);
    EXPECT_EQ(texts[0].figures.texts, 3);
    EXPECT_EQ(texts[0].figures.tokens, are_lines ? 14 : 8);
    EXPECT_EQ(texts[0].figures.longest, are_lines ? 6 : 4);
    EXPECT_EQ(texts[0].figures.empty_texts, 0);
  }
}

// Documents are there to be found: equal ones of two splits say nothing. Queries and rows of pairs do.
TEST_F(Opened, OnlyDocumentsAreThoseOfTheirSplit) {
  const std::string pair = "{\"text\": \"a cat\", \"other\": \"is here\"}\n";
  std::string data = "train_file = \"train.jsonl\"\ntext_column = \"text\"\ntext_pair_column = \"other\"\n",
              files = data;
  folder_.write("train.jsonl", pair);
  folder_.write("pairs.jsonl", pair + pair);
  folder_.write("corpus.jsonl", "{\"_id\": \"d\", \"text\": \"the cat\"}\n");
  folder_.write("queries.jsonl", "{\"_id\": \"q\", \"text\": \"a cat\"}\n");
  folder_.write("relevance.jsonl", "q\td\t1\n");
  for (const std::string split : {"validation", "test"}) {
    for (const std::string part : {"corpus", "queries", "relevance"})
      files += split + "_" + part + " = \"" + part + ".jsonl\"\n";
  }
  std::vector<std::vector<std::uint64_t>> digests;
  for (const SplitTexts& texts : texts_of(of_texts(files, "sentence_embedding"))) {
    if (texts.split > 0) digests.push_back(texts.digests);
  }
  ASSERT_EQ(digests.size(), 2U);
  EXPECT_NE(digests[0][0], digests[1][0]);
  EXPECT_EQ(digests[0][1], digests[1][1]);
  data += "validation_file = \"pairs.jsonl\"\n";
  for (const SplitTexts& texts : texts_of(of_texts(data, "sentence_embedding")))
    EXPECT_EQ(texts.digests.front(), texts.digests.back()) << texts.split << " " << texts.place;
}

TEST_F(Opened, RandomCropsReadElongatedPictures) {
  const std::vector<std::uint8_t> pixels(3 * 200 * 10, 100);
  write_png(folder_.path() + "/long.png", {pixels.data(), 200, 10});
  write_png(folder_.path() + "/square.png", {pixels.data(), 20, 20});
  const std::string rows =
      "{\"image\": \"long.png\", \"caption\": \"a\"}\n{\"image\": \"square.png\", \"caption\": \"b\"}\n";
  folder_.write("train.jsonl", rows);
  folder_.write("validation.jsonl", rows);
  const OpenedData opened(of_captions("train_file = \"train.jsonl\"\nvalidation_file = \"validation.jsonl\"\n"
                                      "augment = \"crop_flip\"\n"),
                          &findings_);
  const std::vector<SplitPictures> pictures = read_pictures(opened, 1);
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(figures_of(pictures[0]).unusable, 0) << "of the training data";
  EXPECT_EQ(figures_of(pictures[1]).unusable, 1) << "an evaluation crops nothing";
  EXPECT_EQ(pictures[0].records[0].width, 200U);
}

TEST(PictureFigures, SidesAreThoseOfAllUsablePictures) {
  SplitPictures pictures;
  pictures.records = {{0, 50, 40, true}, {0, 30, 90, true}, {0, 80, 60, true}, {7, 5, 500, false}};
  const PictureFigures figures = figures_of(pictures);
  EXPECT_EQ(figures.pictures, 4);
  EXPECT_EQ(figures.unusable, 1);
  EXPECT_EQ(figures.shortest_side, 30);
  EXPECT_EQ(figures.longest_side, 90);
}

TEST_F(Opened, DataThatCannotBeReadAreAFindingAndSettingsAreRefused) {
  folder_.write("validation.jsonl", "{\"text\": \"a cat\"}\n");
  const std::string columns = "train_file = \"gone.jsonl\"\ntext_column = \"text\"\n";
  { const OpenedData opened(of_texts(columns + "validation_file = \"validation.jsonl\"\n"), &findings_); }
  ASSERT_EQ(findings_.size(), 1U);
  EXPECT_EQ(findings_[0].check, "unreadable_data");
  EXPECT_EQ(findings_[0].level, Level::kFails);
  const Settings twice = of_texts(columns + "validation_file = [\"validation.jsonl\", \"validation.jsonl\"]\n");
  EXPECT_TRUE(test::fails([&] { const OpenedData opened(twice, &findings_); }, "", ErrorKind::kSettings));
}

// By the error of the split alone, not by its rows beside it.
TEST_F(Opened, ASplitOfWhichEachRowIsRefusedIsToldOnce) {
  folder_.write("train.jsonl", "{\"text\": 1}\n{\"text\": 2}\n");
  folder_.write("validation.jsonl", "{\"text\": \"a cat\"}\n{\"text\": 2}\n");
  const OpenedData opened(
      of_texts("train_file = \"train.jsonl\"\nvalidation_file = \"validation.jsonl\"\ntext_column = \"text\"\n"),
      &findings_);
  ASSERT_EQ(findings_.size(), 2U);
  EXPECT_EQ(findings_[0].check, "unreadable_data");
  EXPECT_NE(findings_[0].what.find("train.jsonl:1: column \"text\" is 1, not a string"), std::string::npos)
      << findings_[0].what;
  EXPECT_EQ(findings_[1].check, "refused_rows");
  EXPECT_EQ(findings_[1].count, 1);
}

}  // namespace
}  // namespace bascule
