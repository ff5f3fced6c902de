// SPDX-License-Identifier: Apache-2.0
// The best continuations of a row, and of the rows of a sample together. Of equal scores the lower beam comes first,
// then the lower token: where torch.topk may return either, the choice here is fixed.
#pragma once

#include <cstdint>

#include "src/base/span.h"

namespace bascule {

// One row's logits. The score of a token is ((logit - top) - log_sum) + running in float32: the log p of its row's
// sequence with it, where top is the largest logit, log_sum = log sum exp(logits - top), and running the log p without.
struct RowLogits {
  const float* logits = nullptr;
  std::int64_t vocabulary_size = 0;
  float top = 0.0f, log_sum = 0.0f, running = 0.0f;
};

struct Candidate {
  float score = 0.0f;
  std::int32_t token = 0;
};

// best[0, most): the tokens with the best scores, the best first. The score of a banned token is -infinity, as is a
// score that is not a number: such tokens come last. Returns how many there are: `most` or, of fewer tokens, all.
std::int64_t best_tokens(Candidate* best, std::int64_t most, const RowLogits& row,
                         Span<const std::int32_t> banned) noexcept;

struct BeamCandidate {
  float score = 0.0f;
  std::int32_t beam = 0, token = 0;
};

// The candidates of one beam, best first, and how many of them are taken.
struct BeamList {
  const Candidate* candidates = nullptr;
  std::int64_t count = 0, taken = 0;
};

// best[0, most): the best of all beams, the best first. There must be so many.
void merge_beams(BeamCandidate* best, std::int64_t most, Span<BeamList> beams) noexcept;

}  // namespace bascule
