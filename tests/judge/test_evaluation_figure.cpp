// SPDX-License-Identifier: Apache-2.0
#include "src/logs/step_record.h"

#include <gtest/gtest.h>

#include "tests/judge/metric_of.h"

namespace bascule::test {
namespace {

Metrics metrics_of(const char* judge) { return judge_named(judge).metrics; }

TEST(EvaluationFigure, HasTheNamesOfTheResultFilesWithOrWithoutPrefix) {
  EvaluationRecord record;
  record.loss = 2.5;
  record[metric_of("contrastive_retrieval", "text_to_image_recall_at_1")] = 0.25;
  record[metric_of("matching", "auc")] = 0.75;
  for (const char* name : {"loss", "eval_loss", "validation_loss"}) {
    const auto figure = EvaluationFigure::named(name, metrics_of("masked_tokens"));
    ASSERT_TRUE(figure.has_value()) << name;
    EXPECT_STREQ(figure->name(), "loss");
    EXPECT_EQ(figure->of(record), 2.5);
  }
  const auto recall = EvaluationFigure::named("eval_text_to_image_recall_at_1", metrics_of("contrastive_retrieval"));
  ASSERT_TRUE(recall.has_value());
  EXPECT_EQ(recall->of(record), 0.25);
  const auto area = EvaluationFigure::named("auc", metrics_of("matching"));
  ASSERT_TRUE(area.has_value());
  EXPECT_EQ(area->of(record), 0.75);
}

// Checkpoints hold these numbers: they are not to change.
TEST(EvaluationFigure, IsFoundByItsNumber) {
  const auto expect = [](const char* judge, const char* name, int number) {
    const auto figure = EvaluationFigure::named(name, metrics_of(judge));
    ASSERT_TRUE(figure.has_value()) << name;
    EXPECT_EQ(figure->number(), number) << name;
    EXPECT_STREQ(EvaluationFigure::numbered(number, metrics_of(judge)).name(), name);
  };
  const char* const retrieval[] = {"loss",
                                   "image_to_text_recall_at_1",
                                   "image_to_text_recall_at_5",
                                   "image_to_text_recall_at_10",
                                   "text_to_image_recall_at_1",
                                   "text_to_image_recall_at_5",
                                   "text_to_image_recall_at_10"};
  for (int number = 0; number < 7; ++number) expect("contrastive_retrieval", retrieval[number], number);
  expect("matching", "accuracy", 7);
  expect("matching", "auc", 8);
  expect("masked_tokens", "accuracy", 7);
  expect("masked_tokens", "perplexity", 9);
}

TEST(EvaluationFigure, OneWithoutABestOrOfAnotherNumberOfClassesIsNotChosen) {
  const Metrics texts = metrics_of("target_tokens"), classes = metrics_of("sequence_classes");
  EXPECT_FALSE(EvaluationFigure::named("gen_len", texts).has_value());
  EXPECT_EQ(EvaluationFigure::names_of(texts).find("gen_len"), std::string::npos);
  for (const char* name : {"f1", "combined_score"}) {
    EXPECT_TRUE(EvaluationFigure::named(name, classes, 2).has_value()) << name;
    EXPECT_FALSE(EvaluationFigure::named(name, classes, 3).has_value()) << name;
  }
  EXPECT_EQ(EvaluationFigure::names_of(classes, 3), "loss, accuracy, macro_f1 or matthews_correlation");
}

TEST(EvaluationFigure, AJudgeHasNoFigureOfAnother) {
  EXPECT_FALSE(EvaluationFigure::named("accuracy", metrics_of("contrastive_retrieval")).has_value());
  EXPECT_FALSE(EvaluationFigure::named("auc", metrics_of("masked_tokens")).has_value());
  EXPECT_FALSE(EvaluationFigure::named("eval_", metrics_of("contrastive_retrieval")).has_value());
  EXPECT_FALSE(EvaluationFigure::named("test_loss", metrics_of("contrastive_retrieval")).has_value());
  EXPECT_EQ(EvaluationFigure::names_of(metrics_of("matching")), "loss, accuracy or auc");
}

}  // namespace
}  // namespace bascule::test
