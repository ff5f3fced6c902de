// SPDX-License-Identifier: Apache-2.0
// Figures of classes and values of texts, beside those of scikit-learn and scipy: tests/data/metrics.json.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/judge/statistics.h"
#include "tests/judge/judging.h"

namespace bascule::test {
namespace {

Json results_of(const std::string& kind) {
  return read_json_file(std::string(BASCULE_TEST_DATA) + "/metrics.json")[kind];
}

template <typename Number>
std::vector<Number> numbers_of(const Json& result, const char* key) {
  std::vector<Number> numbers;
  for (const Json& number : result[key]) numbers.push_back(static_cast<Number>(number.number()));
  return numbers;
}

void expect_figures(const Judging& judging, const EvaluationRecord& record, const Json& result) {
  for (const auto& [key, figure] : result["figures"].items()) {
    const double ours = judging.metric(record, key);
    if (figure.is_null()) {
      EXPECT_TRUE(std::isnan(ours)) << key << " " << json_text(result);
    } else {
      EXPECT_NEAR(ours, figure.number(), 1e-12) << key << " " << json_text(result);
    }
  }
}

// Batches of two, the last ones first, and a row in the middle that was left out.
template <typename Take>
EvaluationRecord judge(Judging& judging, std::int64_t rows, const Take& take) {
  for (std::int64_t first = (rows - 1) / kBatch * kBatch; first >= 0; first -= kBatch) {
    std::vector<std::int64_t> batch;
    for (std::int64_t row = first; row < std::min(rows, first + kBatch); ++row) {
      if (row != rows / 2) batch.push_back(row);
    }
    take(first / kBatch, batch);
  }
  return judging.finish();
}

// The result's rows, and one in the middle that is no part of it.
std::size_t place_in_result(std::int64_t row, std::int64_t rows) {
  return static_cast<std::size_t>(row < rows / 2 ? row : row - 1);
}

TEST(SequenceFigures, OfClassesAreThoseOfScikitLearn) {
  for (const Json& result : results_of("classes")) {
    const std::vector<std::int32_t> labels = numbers_of<std::int32_t>(result, "labels"),
                                    predicted = numbers_of<std::int32_t>(result, "predicted");
    const std::int64_t classes = result["classes"].integer(), rows = static_cast<std::int64_t>(labels.size()) + 1;
    Judging judging("sequence_classes", std::string(static_cast<std::size_t>(rows), 'a'), classes);
    const EvaluationRecord record = judge(judging, rows, [&](std::int64_t index, const auto& batch) {
      Computed computed;
      std::vector<std::int32_t> own;
      for (const std::int64_t row : batch) {
        const std::size_t at = place_in_result(row, rows);
        own.push_back(labels[at]);
        computed.hits.push_back(labels[at] == predicted[at] ? 1 : 0);
        for (std::int32_t c = 0; c < classes; ++c) computed.logits.push_back(c == predicted[at] ? 1.0f : 0.0f);
      }
      judging.take(index, batch, computed, own);
    });
    EXPECT_EQ(record.samples, rows - 1);
    expect_figures(judging, record, result);
    if (classes != 2) {
      EXPECT_TRUE(std::isnan(judging.metric(record, "f1")));
      EXPECT_TRUE(std::isnan(judging.metric(record, "combined_score")));
    }
  }
}

TEST(SequenceFigures, OfValuesAreThoseOfScipy) {
  for (const Json& result : results_of("values")) {
    const std::vector<float> labels = numbers_of<float>(result, "labels"),
                             predicted = numbers_of<float>(result, "predicted");
    const std::int64_t rows = static_cast<std::int64_t>(labels.size()) + 1;
    Judging judging("sequence_values", std::string(static_cast<std::size_t>(rows), 'a'), 1);
    const EvaluationRecord record = judge(judging, rows, [&](std::int64_t index, const std::vector<std::int64_t>& own) {
      Computed computed;
      std::vector<float> own_labels;
      for (const std::int64_t row : own) {
        own_labels.push_back(labels[place_in_result(row, rows)]);
        computed.logits.push_back(predicted[place_in_result(row, rows)]);
      }
      Batch batch;
      batch.counts[kSamples] = static_cast<std::int64_t>(own.size());
      batch.first_position = index * kBatch;
      batch.positions = std::min(kBatch, rows - batch.first_position);
      batch.rows = batch.rows_of_texts = own.data();
      batch.fields[kLabels] = own_labels.data();
      judging.take(batch, computed);
    });
    EXPECT_EQ(record.samples, rows - 1);
    expect_figures(judging, record, result);
  }
}

TEST(Correlation, OfNumbersThatAreNotFiniteIsNone) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  const double infinite[] = {1.0, kInfinity, 3.0}, not_a_number[] = {1.0, kNotANumber, 3.0}, y[] = {1.0, 2.0, 4.0};
  EXPECT_TRUE(std::isnan(pearson_correlation(infinite, y, 3)));
  EXPECT_TRUE(std::isnan(pearson_correlation(y, not_a_number, 3)));
  EXPECT_TRUE(std::isnan(pearson_correlation(y, y, 1)));
  double x[] = {1.0, kNotANumber, 3.0}, ranks[] = {1.0, 2.0, 4.0};
  std::int32_t order[3];
  EXPECT_TRUE(std::isnan(spearman_correlation(x, ranks, 3, order)));
}

}  // namespace
}  // namespace bascule::test
