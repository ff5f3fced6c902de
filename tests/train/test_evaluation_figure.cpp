// SPDX-License-Identifier: Apache-2.0
#include "src/train/evaluation_figure.h"

#include <gtest/gtest.h>

#include <set>

namespace bascule::test {
namespace {

TEST(EvaluationFigure, HasTheNamesOfTheResultFilesWithOrWithoutPrefix) {
  EvaluationRecord record;
  record.loss = 2.5;
  record[Metric::kTextToImageRecall1] = 0.25;
  record[Metric::kAreaUnderCurve] = 0.75;
  for (const char* name : {"loss", "eval_loss", "validation_loss"}) {
    const auto figure = EvaluationFigure::named(name, ModelHead::kMaskedLm);
    ASSERT_TRUE(figure.has_value()) << name;
    EXPECT_STREQ(figure->name(), "loss");
    EXPECT_EQ(figure->of(record), 2.5);
  }
  const auto recall = EvaluationFigure::named("eval_text_to_image_recall_at_1", ModelHead::kContrastive);
  ASSERT_TRUE(recall.has_value());
  EXPECT_EQ(recall->of(record), 0.25);
  const auto area = EvaluationFigure::named("auc", ModelHead::kImageTextMatching);
  ASSERT_TRUE(area.has_value());
  EXPECT_EQ(area->of(record), 0.75);
}

TEST(EvaluationFigure, IsFoundByItsNumber) {
  for (const char* name : {"loss", "accuracy", "perplexity"}) {
    const auto figure = EvaluationFigure::named(name, ModelHead::kMaskedLm);
    EXPECT_STREQ(EvaluationFigure::numbered(figure->number()).name(), name);
  }
}

TEST(EvaluationFigure, AHeadHasNoFigureOfAnother) {
  EXPECT_FALSE(EvaluationFigure::named("accuracy", ModelHead::kContrastive).has_value());
  EXPECT_FALSE(EvaluationFigure::named("auc", ModelHead::kMaskedLm).has_value());
  EXPECT_FALSE(EvaluationFigure::named("eval_", ModelHead::kContrastive).has_value());
  EXPECT_FALSE(EvaluationFigure::named("test_loss", ModelHead::kContrastive).has_value());
  EXPECT_EQ(EvaluationFigure::names_of(ModelHead::kImageTextMatching), "loss, accuracy or auc");
}

TEST(EvaluationFigure, EveryFigureHasANumberOfItsOwn) {
  std::set<int> numbers = {EvaluationFigure::named("loss", ModelHead::kContrastive)->number()};
  for (int metric = 0; metric < kMetrics; ++metric) {
    for (const ModelHead head : {ModelHead::kContrastive, ModelHead::kImageTextMatching, ModelHead::kMaskedLm}) {
      if (const auto figure = EvaluationFigure::named(metric_key(static_cast<Metric>(metric)), head))
        numbers.insert(figure->number());
    }
  }
  EXPECT_EQ(numbers.size(), static_cast<std::size_t>(kMetrics) + 1);
}

}  // namespace
}  // namespace bascule::test
