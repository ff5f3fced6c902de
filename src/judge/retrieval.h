// SPDX-License-Identifier: Apache-2.0
// Figures of retrieval: recall between captions and pictures, and rankings of documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/gemm/gemm.h"
#include "src/base/span.h"
#include "src/runtime/threads.h"

namespace bascule {

// Recall@k between captions and pictures, both ways, as Flickr30k and COCO are judged: a row is a caption with its
// picture, and rows may share a picture. A picture's embedding is that of the first row that shows it.
//
//   text to image: every row's caption ranks the distinct pictures.
//     rank(t) = number of other pictures p with  text_t . image_p >= text_t . image_own(t)
//   image to text: every distinct picture ranks the captions of all rows; the best of its own captions counts.
//     rank(p) = number of captions t of other pictures with  image_p . text_t >= max over p's captions e of
//               image_p . text_e
//   recall@k  = share of the queries with rank < k
//
// So ties count against the query, and two rows with the same caption text but different pictures are two captions. A
// score that is no number counts against the query too. Rows that were skipped are not among the rows: their captions
// are no queries and no candidates, and a picture without a row is no candidate.

struct Recall {
  double at_1 = 0.0, at_5 = 0.0, at_10 = 0.0;
};

struct RecallBothWays {
  Recall text_to_image, image_to_text;
};

// Scores of a block of queries with candidates, by all threads.

class ScoreBlock : NonCopyable {
 public:
  static constexpr std::int64_t kQueries = 256;  // at most

  // scores: (kQueries, candidates). Before the seal.
  ScoreBlock(std::int64_t candidates, std::int64_t width, float* scores, GemmLibrary& products);

  // queries: (count, width) with memory for count rounded up to 16. After the seal.
  void compute(Threads& threads, const float* queries, std::int64_t count, const float* candidates) noexcept;
  const float* scores(std::int64_t query) const noexcept { return scores_ + query * stride_; }

 private:
  static std::int64_t tasks(const void* arguments, const Replay& replay);
  static void run(const void* arguments, const Replay& replay, std::int64_t task, int thread);

  std::unique_ptr<Gemm> product_;
  float* scores_;
  std::int64_t stride_;
  Step step_;
  // Of the block under way.
  const float *queries_ = nullptr, *candidates_ = nullptr;
  std::int64_t count_ = 0;
};

class Retrieval {
 public:
  // For up to max_rows rows of `width` floats. memory: bytes(max_rows), 64-byte aligned. Before the seal.
  Retrieval(std::int64_t max_rows, std::int64_t width, std::byte* memory, GemmLibrary& products);
  static std::size_t bytes(std::int64_t max_rows);

  // Embeddings (rows, width) with memory for max_rows rounded up to 16; pictures (rows): numbers from 0 to
  // max_rows - 1, equal for rows with the same picture. After the seal.
  RecallBothWays measure(Threads& threads, float* text, float* images, const std::int32_t* pictures,
                         std::int64_t rows) noexcept;

 private:
  void list_pictures() noexcept;
  bool shows_first(std::int64_t row) const noexcept { return first_row_[pictures_[row]] == row; }
  template <typename IsQuery, typename RankOf>
  Recall recall(Threads& threads, const float* queries, const float* candidates, IsQuery is_query,
                RankOf rank_of) noexcept;
  std::int64_t rank_of_picture(const float* scores, std::int64_t row) const noexcept;
  std::int64_t rank_of_captions(const float* scores, std::int64_t row) const noexcept;

  std::int64_t max_rows_, width_;
  ScoreBlock scores_;           // of max_rows candidates
  std::int32_t* first_row_;     // (max_rows), by picture: the first row that shows it
  std::int32_t* picture_rows_;  // (max_rows): those rows in order, one a distinct picture
  // State of the measurement under way.
  const std::int32_t* pictures_ = nullptr;
  std::int64_t rows_ = 0, distinct_ = 0;
};

// Figures of retrieval: the documents that score highest for each query, and how well they are ranked. Sealed:
// allocates nothing.

// The best documents of one query by score, best first; of equal scores the document with the smaller number comes
// first, and a score that is no number comes after all others.
//
//   best.begin(); best.take(scores, 0, 4096); best.take(scores, 4096, 4096); ...; best.documents()

class BestDocuments {
 public:
  static constexpr std::int64_t kMost = 100;

  void begin() noexcept { count_ = 0; }
  // scores: of the documents `first`, first + 1, ... Blocks come in the order of the documents.
  void take(const float* scores, std::int64_t first, std::int64_t count) noexcept;
  Span<const std::int32_t> documents() const noexcept { return {documents_, static_cast<std::size_t>(count_)}; }
  float score(std::int64_t place) const noexcept { return scores_[place]; }

 private:
  std::int64_t count_ = 0;
  std::int32_t documents_[kMost] = {};
  float scores_[kMost] = {};
};

// Figures of ranked documents as InformationRetrievalEvaluator of sentence-transformers makes them, each a mean over
// queries. With R relevant documents of a query, and hits: those among its first k:
//
//   accuracy@k   1 if there is a hit, else 0
//   precision@k  hits / k, also where there are fewer than k documents
//   recall@k     hits / R
//   mrr@10       1 / rank of the first hit; without one 0
//   ndcg@10      sum over hits of 1 / log2(rank + 1), over the same sum for the ranks 1 to min(R, 10)
//   map@100      sum over hits of (hits up to its rank / its rank), over min(R, 100)

inline constexpr int kCutoffs = 4;
inline constexpr std::int64_t kCutoff[kCutoffs] = {1, 3, 5, 10};

class RankingFigures {
 public:
  // relevant: the numbers of those documents, ascending, at least one.
  void add(Span<const std::int32_t> ranked, Span<const std::int32_t> relevant) noexcept;

  double accuracy(int cutoff) const noexcept { return mean(accuracy_[cutoff]); }
  double precision(int cutoff) const noexcept { return mean(precision_[cutoff]); }
  double recall(int cutoff) const noexcept { return mean(recall_[cutoff]); }
  double mrr() const noexcept { return mean(mrr_); }
  double ndcg() const noexcept { return mean(ndcg_); }
  double map() const noexcept { return mean(map_); }

 private:
  double mean(double sum) const noexcept { return sum / static_cast<double>(queries_); }

  std::int64_t queries_ = 0;
  double accuracy_[kCutoffs] = {}, precision_[kCutoffs] = {}, recall_[kCutoffs] = {};
  double mrr_ = 0.0, ndcg_ = 0.0, map_ = 0.0;
};

}  // namespace bascule
