// SPDX-License-Identifier: Apache-2.0
#include "src/judge/ranking.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/elementary.h"

namespace bascule {
namespace {

constexpr std::int64_t kMrrRank = 10, kNdcgRank = 10;

// The discount of log2(rank + 1), whose base divides out of a quotient of such sums.
double discount(std::int64_t rank) noexcept { return 1.0 / fixed_log(static_cast<double>(rank + 1)); }

double ideal_gain(std::int64_t relevant) noexcept {
  double sum = 0.0;
  for (std::int64_t rank = 1; rank <= std::min(relevant, kNdcgRank); ++rank) sum += discount(rank);
  return sum;
}

}  // namespace

void BestDocuments::take(const float* scores, std::int64_t first, std::int64_t count) noexcept {
  // A later document is better only with a greater score, or with any where the last one's is no number.
  const auto is_better = [](float score, float than) { return score > than || (than != than && score == score); };
  for (std::int64_t d = 0; d < count; ++d) {
    const float score = scores[d];
    if (count_ == kMost && !is_better(score, scores_[kMost - 1])) continue;
    std::int64_t place = count_ < kMost ? count_++ : kMost - 1;
    for (; place > 0 && is_better(score, scores_[place - 1]); --place) {
      scores_[place] = scores_[place - 1];
      documents_[place] = documents_[place - 1];
    }
    scores_[place] = score;
    documents_[place] = static_cast<std::int32_t>(first + d);
  }
}

void RankingFigures::add(Span<const std::int32_t> ranked, Span<const std::int32_t> relevant) noexcept {
  BASCULE_DCHECK(!relevant.empty());
  const std::int64_t all = static_cast<std::int64_t>(relevant.size());
  std::int64_t hits = 0, first = 0, at_cutoff[kCutoffs] = {};
  double gain = 0.0, precisions = 0.0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const std::int64_t rank = static_cast<std::int64_t>(i) + 1;
    if (!std::binary_search(relevant.begin(), relevant.end(), ranked[i])) continue;
    ++hits;
    if (first == 0) first = rank;
    for (int c = 0; c < kCutoffs; ++c) at_cutoff[c] += rank <= kCutoff[c] ? 1 : 0;
    if (rank <= kNdcgRank) gain += discount(rank);
    precisions += static_cast<double>(hits) / static_cast<double>(rank);
  }
  for (int c = 0; c < kCutoffs; ++c) {
    const double found = static_cast<double>(at_cutoff[c]);
    accuracy_[c] += at_cutoff[c] > 0 ? 1.0 : 0.0;
    precision_[c] += found / static_cast<double>(kCutoff[c]);
    recall_[c] += found / static_cast<double>(all);
  }
  mrr_ += first > 0 && first <= kMrrRank ? 1.0 / static_cast<double>(first) : 0.0;
  ndcg_ += gain / ideal_gain(all);
  map_ += precisions / static_cast<double>(std::min(all, BestDocuments::kMost));
  ++queries_;
}

}  // namespace bascule
