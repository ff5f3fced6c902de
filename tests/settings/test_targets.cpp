// SPDX-License-Identifier: Apache-2.0
// Keys of samples that are a source and a target: of the test model's heads masked_lm reads them.
#include <string>

#include <gtest/gtest.h>

#include "tests/settings/read_text.h"

namespace bascule {
namespace {

std::string with_targets(const std::string& lines) {
  return "model.head = \"masked_lm\"\nmodel.model_name_or_path = \"m\"\ndata.train_file = \"t\"\n"
         "training.output_dir = \"o\"\n" +
         lines;
}

TEST(Targets, HaveTheScriptsDefaults) {
  const DataSettings data = settings_of(with_targets("")).data;
  EXPECT_EQ(data.summary_column, "");
  EXPECT_EQ(data.source_prefix, "");
  EXPECT_EQ(data.max_source_length, 1024);
  EXPECT_EQ(data.max_target_length, 128);
  EXPECT_EQ(data.eval_target_length(), 128);
  EXPECT_TRUE(data.ignore_pad_token_for_loss);
  EXPECT_FALSE(data.pad_to_max_length);
  EXPECT_EQ(data.max_eval_samples, 0);
  EXPECT_EQ(data.max_predict_samples, 0);
}

TEST(Targets, HaveKeysThatReachTheirMembers) {
  const DataSettings data =
      settings_of(with_targets("data.text_column = \"a\"\ndata.summary_column = \"b\"\ndata.source_prefix = \"c: \"\n"
                               "data.max_source_length = 11\ndata.max_target_length = 12\n"
                               "data.val_max_target_length = 13\ndata.ignore_pad_token_for_loss = false\n"
                               "data.pad_to_max_length = true\ndata.max_eval_samples = 14\n"
                               "data.max_predict_samples = 15\n"))
          .data;
  EXPECT_EQ(data.text_column, "a");
  EXPECT_EQ(data.summary_column, "b");
  EXPECT_EQ(data.source_prefix, "c: ");
  EXPECT_EQ(data.max_source_length, 11);
  EXPECT_EQ(data.max_target_length, 12);
  EXPECT_EQ(data.eval_target_length(), 13);
  EXPECT_FALSE(data.ignore_pad_token_for_loss);
  EXPECT_TRUE(data.pad_to_max_length);
  EXPECT_EQ(data.max_eval_samples, 14);
  EXPECT_EQ(data.max_predict_samples, 15);
}

TEST(Targets, ArePaddedToAFixedLengthWherePaddingCounts) {
  EXPECT_EQ(
      refusal_of(with_targets("data.ignore_pad_token_for_loss = false\n")),
      "test.toml:5:34: data.ignore_pad_token_for_loss = false needs data.pad_to_max_length = true: without it the "
      "number of padded labels would depend on the other samples of a batch; set it, or "
      "ignore_pad_token_for_loss = true");
  EXPECT_EQ(refusal_of(with_targets("data.ignore_pad_token_for_loss = false\ndata.pad_to_max_length = true\n")), "");
  EXPECT_EQ(refusal_of(with_targets("data.pad_to_max_length = true\n")), "");
  EXPECT_EQ(refusal_of(least_with("data", "ignore_pad_token_for_loss = false")), "") << "this head reads no targets";
}

TEST(Targets, HaveAColumnOfTheirOwnAndAHeadThatReadsThem) {
  EXPECT_EQ(refusal_of(with_targets("data.text_column = \"a\"\ndata.summary_column = \"a\"\n")),
            "test.toml:6:23: data.summary_column and another column are both \"a\"; give each a column of its own");
  EXPECT_EQ(refusal_of(least_with("data", "summary_column = \"b\"")),
            "test.toml:4:18: data.summary_column is set, but only the head \"masked_lm\" writes a text; remove it, or "
            "set model.head = \"masked_lm\"");
  EXPECT_EQ(refusal_of("model.model_name_or_path = \"vit-x\"\ndata.train_file = \"t\"\ntraining.output_dir = \"o\"\n"
                       "data.summary_column = \"b\"\n"),
            "test.toml:4:23: data.summary_column is set, but no head of this model writes a text; remove it");
}

TEST(Targets, HaveRoomBesideTheirSources) {
  const auto with = [](std::int64_t source, std::int64_t target, std::int64_t evaluated) {
    return refusal_of(with_targets("data.max_source_length = " + std::to_string(source) +
                                   "\ndata.max_target_length = " + std::to_string(target) +
                                   "\ndata.val_max_target_length = " + std::to_string(evaluated) + "\n"));
  };
  EXPECT_EQ(with(65000, 536, 0), "");
  EXPECT_EQ(
      with(65000, 537, 0),
      "test.toml:5:26: data.max_source_length = 65000 and data.max_target_length = 537 allow 65537 tokens a sample; "
      "lower them: a source and its target may have 65536 together");
  EXPECT_EQ(with(65000, 536, 536), "");
  EXPECT_EQ(with(65000, 10, 537),
            "test.toml:5:26: data.max_source_length = 65000 and data.val_max_target_length = 537 allow 65537 tokens a "
            "sample; lower them: a source and its target may have 65536 together");
  EXPECT_EQ(refusal_of(least_with("data", "max_source_length = 65536")), "") << "this head reads no targets";
}

}  // namespace
}  // namespace bascule
