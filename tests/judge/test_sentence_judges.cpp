// SPDX-License-Identifier: Apache-2.0
// Judges of models that embed texts: retrieval over the documents of a split, triplets, and cosines of scored pairs.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/index/relevance.h"
#include "src/judge/judge.h"
#include "src/runtime/threads.h"
#include "tests/judge/metric_of.h"
#include "tests/support/files.h"
#include "tests/support/own_products.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr char kFinds[] = "sentence_retrieval", kScores[] = "sentence_similarity";
constexpr std::int64_t kEmbeddingWidth = 2;

// Embeds by hand: of each row its texts one after another, in batches of two rows.
class JudgedTexts {
 public:
  JudgedTexts(const char* judge, Manifest manifest, bool has_loss, int threads = 1, bool by_dot = false)
      : kind_(judge_named(judge)), manifest_(std::move(manifest)), products_(threads), threads_(threads, false) {
    JudgeShape shape;
    shape.max_rows = shape.predicted_rows = manifest_.rows();
    shape.batch = 2;
    shape.compares_by_dot = by_dot;
    if (has_loss) shape.losses = {{"loss", kSamples}};
    if (const Relevance* const relevance = manifest_.relevance()) {
      shape.documents = relevance->documents;
      shape.queries = relevance->queries;
      each_ = relevance->texts_in_a_row;
    }
    shape.fields = {{"labels", DType::kFloat32, {}, 1, FieldSource::kLabelValues}};
    shape.outputs = outputs();
    judge_ = kind_.make(shape);
    memory_.resize(judge_->bytes() / sizeof(Line) + 1);
    judge_->seal(memory_[0].bytes, nullptr, outputs(), products_);
  }

  // embeddings: of all texts, row after row.
  EvaluationRecord judge(const std::vector<float>& embeddings, const std::vector<float>& labels = {}) {
    judge_->begin(manifest_.rows(), true);
    const std::int64_t batches = divide_up<std::int64_t>(manifest_.rows(), 2);
    for (std::int64_t index = batches - 1; index >= 0; --index) {
      Batch batch;
      batch.first_position = 2 * index;
      batch.counts[kSamples] = batch.positions = std::min<std::int64_t>(2, manifest_.rows() - 2 * index);
      const std::int64_t rows[] = {2 * index, 2 * index + 1};
      batch.rows = batch.rows_of_texts = rows;
      batch.fields[0] = labels.data() + (labels.empty() ? 0 : 2 * index);
      const std::int64_t numbers = each_ * kEmbeddingWidth;
      std::copy_n(embeddings.data() + 2 * index * numbers, batch.positions * numbers, embeddings_);
      judge_->take(batch, manifest_);
    }
    EvaluationRecord record;
    judge_->finish(threads_, &record);
    return record;
  }
  double metric(const EvaluationRecord& record, const char* key) const { return record[metric_of(kind_.name, key)]; }
  void set_texts(std::int64_t each) { each_ = each; }
  Report write(const std::string& folder) const {
    Report report;
    judge_->write_files({folder, Split::kTest, manifest_, {}, {}, true}, &report);
    return report;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<JudgedOutput> outputs() const {
    return {{"loss", 1, &loss_}, {"sentence_embedding", kEmbeddingWidth, embeddings_}};
  }

  const JudgeKind& kind_;
  Manifest manifest_;
  std::int64_t each_ = 1;
  OwnProducts products_;
  Threads threads_;
  float loss_ = 0.5f, embeddings_[64] = {};
  std::unique_ptr<Judge> judge_;
  std::vector<Line> memory_;
};

Manifest retrieval_in(const TemporaryFolder& folder) {
  std::string corpus;
  for (const char* id : {"d10", "d2", "d1", "d3"})
    corpus += std::string("{\"_id\": \"") + id + "\", \"text\": \"document " + id + "\"}\n";
  return load_retrieval({folder.write("corpus.jsonl", corpus),
                         folder.write("queries.jsonl",
                                      "{\"_id\": \"a\", \"text\": \"query a\"}\n"
                                      "{\"_id\": \"b\", \"text\": \"query b\"}\n"),
                         folder.write("qrels.tsv", "a\td2\t1\nb\td10\t1\nb\td3\t1\n")});
}

// Query a: d2, d1, d10, d3. Query b: d2, d3, d1, d10.
TEST(SentenceJudges, RanksDocumentsByDotProductWhereTheFolderSaysSo) {
  const TemporaryFolder folder;
  JudgedTexts judged(kFinds, retrieval_in(folder), false, 1, true);
  const EvaluationRecord record = judged.judge({3, 0, 9, 0, 7, 0, 0, 2, 5, 0, 0.25f, 1});
  EXPECT_DOUBLE_EQ(judged.metric(record, "accuracy_at_1"), 0.5);
  EXPECT_DOUBLE_EQ(judged.metric(record, "mrr_at_10"), (1.0 + 0.5) / 2);
}

// Documents d10, d2, d1, d3, then the queries. Query a: d10, d2 and d1 score alike and rank as d1, d10, d2. Query b:
// d3, then those three. Lengths do not matter.
TEST(SentenceJudges, RanksDocumentsByCosineAndTiesById) {
  const TemporaryFolder folder;
  for (const int threads : {1, 3}) {
    JudgedTexts judged(kFinds, retrieval_in(folder), false, threads);
    for (int round = 0; round < 2; ++round) {
      const EvaluationRecord record = judged.judge({3, 0, 1, 0, 7, 0, 0, 2, 5, 0, 0.25f, 1});
      EXPECT_EQ(record.samples, 6);
      EXPECT_TRUE(std::isnan(record.loss));
      EXPECT_DOUBLE_EQ(judged.metric(record, "accuracy_at_1"), 0.5);
      EXPECT_DOUBLE_EQ(judged.metric(record, "accuracy_at_3"), 1.0);
      EXPECT_DOUBLE_EQ(judged.metric(record, "precision_at_3"), (1.0 / 3 + 2.0 / 3) / 2);
      EXPECT_DOUBLE_EQ(judged.metric(record, "recall_at_1"), 0.25);
      EXPECT_DOUBLE_EQ(judged.metric(record, "mrr_at_10"), (1.0 / 3 + 1.0) / 2);
      EXPECT_DOUBLE_EQ(judged.metric(record, "map_at_100"), (1.0 / 3 + (1.0 + 2.0 / 3) / 2) / 2);
      EXPECT_NEAR(judged.metric(record, "ndcg_at_10"), (0.5 + (1.0 + 0.5) / (1.0 + 1.0 / std::log2(3.0))) / 2, 1e-12);
      EXPECT_TRUE(std::isnan(judged.metric(record, "triplet_accuracy")));
    }
    const Report report = judged.write(folder.path());
    ASSERT_EQ(report.query_examples.size(), 2u);
    EXPECT_EQ(report.query_examples[0].text, "query a");
    EXPECT_EQ(report.query_examples[0].hits[0].text, "document d1");
    EXPECT_EQ(report.query_examples[0].right_rank, 3);
    EXPECT_EQ(report.query_examples[1].right_hit.text, "document d3");
  }
}

// More queries and documents than are scored at once, and a hit in each block.
TEST(SentenceJudges, RanksManyDocumentsInBlocks) {
  const TemporaryFolder folder;
  std::string corpus, queries, relevance;
  std::vector<float> embeddings;
  constexpr int kDocuments = 9000, kQueries = 600;
  const auto add = [&](std::string* texts, const std::string& id, int place) {
    *texts += "{\"_id\": \"" + id + "\", \"text\": \"x\"}\n";
    const double angle = 1e-4 * place;
    embeddings.push_back(static_cast<float>(std::cos(angle)));
    embeddings.push_back(static_cast<float>(std::sin(angle)));
  };
  for (int d = 0; d < kDocuments; ++d) add(&corpus, std::to_string(100'000 + d), d);
  for (int q = 0; q < kQueries; ++q) {
    add(&queries, "q" + std::to_string(q), 15 * q);
    relevance += "q" + std::to_string(q) + "\t" + std::to_string(100'000 + 15 * q) + "\t1\n";
  }
  JudgedTexts judged(
      kFinds, load_retrieval({folder.write("c", corpus), folder.write("q", queries), folder.write("r", relevance)}),
      false, 2);
  const EvaluationRecord record = judged.judge(embeddings);
  EXPECT_DOUBLE_EQ(judged.metric(record, "recall_at_10"), 1.0);
  EXPECT_GT(judged.metric(record, "mrr_at_10"), 0.2);
}

// Rows of anchor, positive and two negatives. The second row's positive is as near as its first negative, the third's
// texts are equal to those of the first row.
TEST(SentenceJudges, CountsTripletsAndLeavesOutTextsWithoutAPlace) {
  const TemporaryFolder folder;
  ManifestColumns columns;
  columns.image = "";
  columns.text = "a";
  columns.second_text = "p";
  Manifest manifest = Manifest::load(
      folder.write("rows.jsonl",
                   "{\"a\": \"1\", \"p\": \"2\"}\n{\"a\": \"3\", \"p\": \"4\"}\n{\"a\": \"1\", \"p\": \"2\"}\n"),
      columns);
  Relevance relevance;
  relevance.texts_in_a_row = 4;
  relevance.documents = 6;
  relevance.queries = 2;
  relevance.places = {6, 0, 1, 2, 7, 3, 4, 5, -1, -1, -1, -1};
  relevance.first = {0, 1, 2};
  relevance.relevant = {0, 3};
  manifest.set_relevance(relevance);
  JudgedTexts judged(kFinds, std::move(manifest), true);
  const EvaluationRecord record =
      judged.judge({1, 0, 1, 0.1f, 1, 1, 0, 1, /**/ 0, 1, 1, 1, 2, 2, 1, 0, /**/ 1, 0, 1, 0.1f, 1, 1, 0, 1});
  EXPECT_DOUBLE_EQ(judged.metric(record, "triplet_accuracy"), 5.0 / 6.0);
  EXPECT_DOUBLE_EQ(record.loss, 0.5);
  // Query 0 finds document 5 before its own, query 1 documents 2 and 1, the latter with the score of its own.
  EXPECT_DOUBLE_EQ(judged.metric(record, "mrr_at_10"), (1.0 / 2 + 1.0 / 3) / 2);
}

TEST(SentenceJudges, CorrelatesCosinesWithScores) {
  const TemporaryFolder folder;
  ManifestColumns columns;
  columns.image = "";
  columns.text = "a";
  columns.second_text = "b";
  columns.label = "score";
  columns.values = LabelValues::kAlways;
  std::string rows;
  const std::vector<float> labels = {0.0f, 0.25f, 1.0f};
  for (const float label : labels) rows += "{\"a\": \"x\", \"b\": \"y\", \"score\": " + std::to_string(label) + "}\n";
  JudgedTexts judged(kScores, Manifest::load(folder.write("rows.jsonl", rows), columns), true);
  judged.set_texts(2);
  // Cosines 0, 0.6 and 1.
  EvaluationRecord record = judged.judge({2, 0, 0, 1, 0, 1, 4, 3, 1, 1, 2, 2}, labels);
  EXPECT_DOUBLE_EQ(judged.metric(record, "spearmanr"), 1.0);
  EXPECT_NEAR(judged.metric(record, "pearson"), 0.922612895835, 1e-7);
  const Report report = judged.write(folder.path());
  EXPECT_EQ(report.text_values[0].predicted, 0.6);
  EXPECT_NE(read_file(folder.path() + "/predictions.jsonl").find("\"predicted\": 0.6"), std::string::npos);
  // Of equal cosines there is no correlation.
  record = judged.judge({1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}, labels);
  EXPECT_TRUE(std::isnan(judged.metric(record, "spearmanr")));
}

}  // namespace
}  // namespace bascule::test
