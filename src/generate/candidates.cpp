// SPDX-License-Identifier: Apache-2.0
#include "src/generate/candidates.h"

#include <algorithm>
#include <limits>

#include "src/base/check.h"

namespace bascule {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// The order of candidates: of equal scores the lower token comes first.
constexpr auto kIsBefore = [](const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.token < b.token);
};

// Adds the tokens whose score is -infinity, the lowest first. best[0, count) has all the others: else it were full.
std::int64_t add_impossible(Candidate* best, std::int64_t count, std::int64_t most,
                            std::int64_t vocabulary_size) noexcept {
  const std::int64_t possible = count;
  for (std::int64_t token = 0; token < vocabulary_size && count < most; ++token) {
    const bool is_listed =
        std::any_of(best, best + possible, [token](const Candidate& listed) { return listed.token == token; });
    if (!is_listed) best[count++] = {kImpossible, static_cast<std::int32_t>(token)};
  }
  return count;
}

}  // namespace

std::int64_t best_tokens(Candidate* best, std::int64_t most, const RowLogits& row,
                         Span<const std::int32_t> banned) noexcept {
  std::int64_t count = 0;  // of a heap whose first is the last in order
  float threshold = kImpossible;
  for (std::int64_t token = 0; token < row.vocabulary_size; ++token) {
    const float score = ((row.logits[token] - row.top) - row.log_sum) + row.running;
    // Not `score <= threshold`, which lets through what is not a number.
    if (!(score > threshold)) continue;
    if (std::find(banned.begin(), banned.end(), token) != banned.end()) continue;
    if (count == most) std::pop_heap(best, best + count--, kIsBefore);
    best[count++] = {score, static_cast<std::int32_t>(token)};
    std::push_heap(best, best + count, kIsBefore);
    if (count == most) threshold = best[0].score;
  }
  std::sort_heap(best, best + count, kIsBefore);
  return add_impossible(best, count, most, row.vocabulary_size);
}

void merge_beams(BeamCandidate* best, std::int64_t most, Span<BeamList> beams) noexcept {
  for (std::int64_t i = 0; i < most; ++i) {
    BeamList* first = nullptr;
    for (BeamList& beam : beams) {
      if (beam.taken == beam.count) continue;
      if (first == nullptr || beam.candidates[beam.taken].score > first->candidates[first->taken].score) first = &beam;
    }
    BASCULE_DCHECK(first != nullptr);
    const Candidate& next = first->candidates[first->taken++];
    best[i] = {next.score, static_cast<std::int32_t>(first - beams.begin()), next.token};
  }
}

}  // namespace bascule
