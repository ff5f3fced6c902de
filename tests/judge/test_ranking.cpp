// SPDX-License-Identifier: Apache-2.0
// Figures of ranked documents and correlations beside those of sentence-transformers, for scores of which many are
// equal: tests/data/retrieval.json.
#include "src/judge/retrieval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/judge/statistics.h"

namespace bascule::test {
namespace {

Json cases_of(const char* kind) { return read_json_file(std::string(BASCULE_TEST_DATA) + "/retrieval.json")[kind]; }

std::vector<std::string> strings_of(const Json& list) {
  std::vector<std::string> strings;
  for (const Json& one : list) strings.push_back(one.string());
  return strings;
}

std::vector<std::int32_t> numbers(const BestDocuments& best) {
  return {best.documents().begin(), best.documents().end()};
}

// The figures of all queries of a case; blocks of so many documents are scored at a time.
RankingFigures figures_of(const Json& one, std::size_t block) {
  const std::vector<std::string> ids = strings_of(one["corpus_ids"]);
  std::vector<std::string> sorted = ids;  // equal scores rank by id
  std::sort(sorted.begin(), sorted.end());
  const auto number_of = [&](const std::string& id) {
    return static_cast<std::int32_t>(std::lower_bound(sorted.begin(), sorted.end(), id) - sorted.begin());
  };
  RankingFigures figures;
  for (std::size_t query = 0; query < one["scores"].size(); ++query) {
    std::vector<float> scores(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i)
      scores[static_cast<std::size_t>(number_of(ids[i]))] = static_cast<float>(one["scores"][query][i].number());
    std::vector<std::int32_t> relevant;
    for (const std::string& id : strings_of(one["relevant"][query])) relevant.push_back(number_of(id));
    std::sort(relevant.begin(), relevant.end());
    BestDocuments best;
    best.begin();
    for (std::size_t first = 0; first < scores.size(); first += block)
      best.take(scores.data() + first, static_cast<std::int64_t>(first),
                static_cast<std::int64_t>(std::min(block, scores.size() - first)));
    figures.add(best.documents(), relevant);
  }
  return figures;
}

TEST(Ranking, FiguresAreThoseOfSentenceTransformers) {
  const Json cases = cases_of("retrieval");
  ASSERT_GE(cases.size(), 12u);
  for (const std::size_t block : {std::size_t{100}, std::size_t{3}}) {
    for (const Json& one : cases) {
      const RankingFigures figures = figures_of(one, block);
      const Json& expected = one["figures"];
      for (int c = 0; c < kCutoffs; ++c) {
        const std::string k = "@" + std::to_string(kCutoff[c]);
        EXPECT_NEAR(figures.accuracy(c), expected["accuracy" + k].number(), 1e-12) << json_text(one);
        EXPECT_NEAR(figures.precision(c), expected["precision" + k].number(), 1e-12) << json_text(one);
        EXPECT_NEAR(figures.recall(c), expected["recall" + k].number(), 1e-12) << json_text(one);
      }
      EXPECT_NEAR(figures.mrr(), expected["mrr@10"].number(), 1e-12) << json_text(one);
      EXPECT_NEAR(figures.ndcg(), expected["ndcg@10"].number(), 1e-12) << json_text(one);
      EXPECT_NEAR(figures.map(), expected["map@100"].number(), 1e-12) << json_text(one);
    }
  }
}

TEST(Ranking, CorrelationsAreThoseOfSentenceTransformers) {
  for (const Json& one : cases_of("correlation")) {
    std::vector<double> values, labels;
    for (const Json& value : one["values"]) values.push_back(value.number());
    for (const Json& label : one["labels"]) labels.push_back(label.number());
    std::vector<std::int32_t> order(values.size());
    const std::int64_t count = static_cast<std::int64_t>(values.size());
    EXPECT_NEAR(pearson_correlation(values.data(), labels.data(), count), one["pearson"].number(), 1e-12);
    EXPECT_NEAR(spearman_correlation(values.data(), labels.data(), count, order.data()), one["spearman"].number(),
                1e-12);
  }
}

// 250 documents in blocks of 60: the hundred best, equal ones by number, and those without a score last.
TEST(Ranking, KeepsTheHundredBestDocuments) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> scores(250);
  for (std::size_t d = 0; d < scores.size(); ++d) scores[d] = d % 5 == 0 ? kNan : static_cast<float>(d * 37 % 61);
  std::vector<std::int32_t> expected;
  for (std::size_t d = 0; d < scores.size(); ++d) expected.push_back(static_cast<std::int32_t>(d));
  std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
    const float left = scores[static_cast<std::size_t>(a)], right = scores[static_cast<std::size_t>(b)];
    return left > right || (right != right && left == left);
  });
  expected.resize(100);
  BestDocuments best;
  for (const std::size_t count : {std::size_t{250}, std::size_t{7}}) {  // begin() forgets those of before
    best.begin();
    for (std::size_t first = 0; first < count; first += 60)
      best.take(scores.data() + first, static_cast<std::int64_t>(first),
                static_cast<std::int64_t>(std::min<std::size_t>(60, count - first)));
    if (count == 250) {
      EXPECT_EQ(numbers(best), expected);
    }
  }
  EXPECT_EQ(numbers(best), (std::vector<std::int32_t>{3, 6, 1, 4, 2, 0, 5}));
}

// More relevant documents than the hundred that are ranked: the ideal of MAP is a hundred of them.
TEST(Ranking, FiguresOfManyRelevantDocumentsAndOfNoneFound) {
  std::vector<std::int32_t> first(100), relevant(150);
  for (std::size_t i = 0; i < relevant.size(); ++i) relevant[i] = static_cast<std::int32_t>(i);
  std::copy_n(relevant.begin(), 100, first.begin());
  RankingFigures figures;
  figures.add(first, relevant);
  EXPECT_DOUBLE_EQ(figures.map(), 1.0);
  EXPECT_DOUBLE_EQ(figures.ndcg(), 1.0);
  EXPECT_DOUBLE_EQ(figures.recall(3), 10.0 / 150.0);
  const std::vector<std::int32_t> other = {200};
  figures.add(first, other);
  EXPECT_DOUBLE_EQ(figures.mrr(), 0.5);
  EXPECT_DOUBLE_EQ(figures.accuracy(0), 0.5);
}

}  // namespace
}  // namespace bascule::test
