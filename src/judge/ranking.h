// SPDX-License-Identifier: Apache-2.0
// Figures of retrieval: the documents that score highest for each query, and how well they are ranked. Sealed:
// allocates nothing.
#pragma once

#include <cstdint>

#include "src/base/span.h"

namespace bascule {

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
