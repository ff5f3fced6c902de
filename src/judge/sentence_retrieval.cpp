// SPDX-License-Identifier: Apache-2.0
// Judges a model that embeds texts by what it finds: the documents of a split ranked for each of its queries, as
// Manifest::relevance() says which texts these are; and where rows have negatives, whether each row's positive is
// nearer to its anchor. Leaves examples in the report.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/base/nearest.h"
#include "src/index/relevance.h"
#include "src/judge/examples.h"
#include "src/judge/judge.h"
#include "src/judge/retrieval.h"
#include "src/judge/statistics.h"

namespace bascule {
namespace {

constexpr Metric kAccuracies[] = {{"accuracy_at_1", "accuracy@1", 0, true, false, 2},
                                  {"accuracy_at_3", "accuracy@3", 1, true},
                                  {"accuracy_at_5", "accuracy@5", 2, true},
                                  {"accuracy_at_10", "accuracy@10", 3, true, false, 0, 2}};
constexpr Metric kPrecisions[] = {{"precision_at_1", "precision@1", 4, true},
                                  {"precision_at_3", "precision@3", 5, true},
                                  {"precision_at_5", "precision@5", 6, true},
                                  {"precision_at_10", "precision@10", 7, true}};
constexpr Metric kRecalls[] = {{"recall_at_1", "recall@1", 8, true},
                               {"recall_at_3", "recall@3", 9, true},
                               {"recall_at_5", "recall@5", 10, true},
                               {"recall_at_10", "recall@10", 11, true}};
constexpr Metric kMrr = {"mrr_at_10", "MRR@10", 12, false};
constexpr Metric kNdcg = {"ndcg_at_10", "NDCG@10", 13, false, false, 1, 1};
constexpr Metric kMap = {"map_at_100", "MAP@100", 14, false};
constexpr Metric kTriplets = {"triplet_accuracy", "accuracy over triplets", 15, true, false, 3, 3};
constexpr Metric kSentenceRetrievalMetrics[] = {kNdcg,          kMrr,           kMap,           kAccuracies[0],
                                                kAccuracies[1], kAccuracies[2], kAccuracies[3], kPrecisions[0],
                                                kPrecisions[1], kPrecisions[2], kPrecisions[3], kRecalls[0],
                                                kRecalls[1],    kRecalls[2],    kRecalls[3],    kTriplets};

constexpr char kSentenceRetrievalNote[] =
    "Figures of retrieval are those of sentence-transformers' `InformationRetrievalEvaluator`, by cosine or, where the "
    "model's folder says so, by dot product: queries "
    "without a relevant document are left out, and of documents with equal scores the one with the smaller id ranks "
    "first. `triplet_accuracy` is the share of anchors that are nearer to their positive than to their negative; equal "
    "distances count against it.";

constexpr std::int64_t kDocumentsAtOnce = 4096, kQueryExamples = 8, kExampleHits = 5;

class SentenceRetrieval final : public Judge {
 public:
  explicit SentenceRetrieval(const JudgeShape& shape)
      : Judge(shape),
        width_(output("sentence_embedding").cols),
        compares_by_dot_(shape.compares_by_dot),
        at_once_(std::min(kDocumentsAtOnce, align_up<std::int64_t>(shape.documents, 16))) {
    read(&of_batch_, "sentence_embedding");
    // A block of documents that begins before the last one ends within the table.
    const std::int64_t queries_end = first_query(shape.documents) + align_up<std::int64_t>(shape.queries, 16);
    plan(Part::kRows, &table_, (queries_end + at_once_) * width_);
    plan(Part::kScratch, &scores_, ScoreBlock::kQueries * at_once_);
    plan(Part::kScratch, &best_, ScoreBlock::kQueries);
  }

  const char* file() const override { return ""; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }

  void write_files(const JudgedFiles& files, Report* report) const override {
    if (!files.has_page) return;
    const Relevance& relevance = *files.manifest.relevance();
    std::vector<std::int64_t> texts(static_cast<std::size_t>(relevance.documents + relevance.queries), 0);
    for (std::size_t text = 0; text < relevance.places.size(); ++text) {
      const std::int32_t place = relevance.places[text];
      if (place != Relevance::kNoPlace) texts[static_cast<std::size_t>(place)] = static_cast<std::int64_t>(text);
    }
    const auto text_at = [&](std::int64_t place) {
      const std::int64_t text = texts[static_cast<std::size_t>(place)], each = relevance.texts_in_a_row;
      return std::string(files.manifest.text(text / each, static_cast<std::size_t>(text % each)));
    };
    std::vector<std::int64_t> queries(static_cast<std::size_t>(relevance.queries)),
        documents(static_cast<std::size_t>(relevance.documents));
    std::iota(queries.begin(), queries.end(), 0);
    std::iota(documents.begin(), documents.end(), 0);
    for (const std::int64_t query : evenly_spaced(queries, kQueryExamples)) {
      const Span<const std::int32_t> right = relevance.relevant_of(query);
      const float* const asked = table_ + (first_query(relevance.documents) + query) * width_;
      RetrievalExample example;
      example.text = text_at(relevance.documents + query);
      std::int64_t rank = 0;
      for (const Neighbour& one : nearest({asked, static_cast<std::size_t>(width_)}, table_, documents)) {
        const bool is_right = std::binary_search(right.begin(), right.end(), static_cast<std::int32_t>(one.row));
        ++rank;
        if (rank > kExampleHits && !is_right) continue;
        const RetrievalHit hit{kNoPicture, text_at(one.row), one.score, is_right};
        if (is_right && example.right_rank == 0) {
          example.right_hit = hit;
          example.right_rank = rank;
        }
        if (rank > kExampleHits) break;
        example.hits.push_back(hit);
      }
      report->query_examples.push_back(std::move(example));
    }
  }

 protected:
  void found(GemmLibrary& products) override {
    block_ = std::make_unique<ScoreBlock>(at_once_, width_, scores_, products);
  }

  void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept override {
    relevance_ = manifest.relevance();
    const std::int64_t each = relevance_->texts_in_a_row;
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      const float* const texts = of_batch_ + s * each * width_;
      for (std::int64_t c = 0; c < each; ++c) {
        const std::int32_t place = relevance_->places[static_cast<std::size_t>(batch.rows[s] * each + c)];
        if (place != Relevance::kNoPlace) keep(place, texts + c * width_);
      }
      for (std::int64_t negative = 2; negative < each; ++negative) {
        const float* const other = texts + negative * width_;
        if (score(texts, texts + width_) > score(texts, other)) sums->right += 1.0;
      }
    }
  }

  // Texts are at their own places; a text is never left out.
  void move_row(std::int64_t, std::int64_t) noexcept override {}

  void judge_rows(Threads& threads, const Sums* sums, EvaluationRecord* record) noexcept override {
    const RankingFigures figures = rank_documents(threads);
    for (int c = 0; c < kCutoffs; ++c) {
      (*record)[kAccuracies[c]] = figures.accuracy(c);
      (*record)[kPrecisions[c]] = figures.precision(c);
      (*record)[kRecalls[c]] = figures.recall(c);
    }
    (*record)[kMrr] = figures.mrr();
    (*record)[kNdcg] = figures.ndcg();
    (*record)[kMap] = figures.map();
    const std::int64_t negatives = relevance_->texts_in_a_row - 2;
    if (negatives > 0) (*record)[kTriplets] = sums->right / static_cast<double>(record->samples * negatives);
  }

 private:
  // The table's row of the first query: behind the documents, and aligned.
  static std::int64_t first_query(std::int64_t documents) noexcept { return align_up<std::int64_t>(documents, 16); }

  double score(const float* a, const float* b) const noexcept {
    if (!compares_by_dot_) return cosine(a, b, width_);
    double sum = 0.0;
    for (std::int64_t i = 0; i < width_; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  }

  // With length 1 where cosines are compared, so that products are cosines.
  void keep(std::int64_t place, const float* embedding) noexcept {
    const std::int64_t query = place - relevance_->documents;
    float* const row = table_ + (query < 0 ? place : first_query(relevance_->documents) + query) * width_;
    const double length = compares_by_dot_ ? 1.0 : vector_length(embedding, width_);
    for (std::int64_t i = 0; i < width_; ++i) row[i] = static_cast<float>(static_cast<double>(embedding[i]) / length);
  }

  RankingFigures rank_documents(Threads& threads) noexcept {
    RankingFigures figures;
    const Relevance& relevance = *relevance_;
    const float* const queries = table_ + first_query(relevance.documents) * width_;
    for (std::int64_t first = 0; first < relevance.queries; first += ScoreBlock::kQueries) {
      const std::int64_t count = std::min(ScoreBlock::kQueries, relevance.queries - first);
      for (std::int64_t q = 0; q < count; ++q) best_[q].begin();
      for (std::int64_t document = 0; document < relevance.documents; document += at_once_) {
        block_->compute(threads, queries + first * width_, count, table_ + document * width_);
        const std::int64_t documents = std::min(at_once_, relevance.documents - document);
        run_tasks(threads, count, [&](std::int64_t q) { best_[q].take(block_->scores(q), document, documents); });
      }
      for (std::int64_t q = 0; q < count; ++q) figures.add(best_[q].documents(), relevance.relevant_of(first + q));
    }
    return figures;
  }

  const std::int64_t width_;  // of an embedding
  const bool compares_by_dot_;
  const std::int64_t at_once_;       // documents that are scored at once
  const float* of_batch_ = nullptr;  // (samples x texts in a row, width)
  float* table_ = nullptr;           // (documents and queries, width)
  float* scores_ = nullptr;          // (queries of a block, documents at once)
  BestDocuments* best_ = nullptr;    // by query of a block
  std::unique_ptr<ScoreBlock> block_;
  const Relevance* relevance_ = nullptr;  // of the split that is judged
};

}  // namespace

extern const JudgeKind kSentenceRetrieval;
const JudgeKind kSentenceRetrieval =
    judge_kind<SentenceRetrieval>("sentence_retrieval", kSentenceRetrievalMetrics, false, kSentenceRetrievalNote);

}  // namespace bascule
