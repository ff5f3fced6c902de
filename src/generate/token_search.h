// SPDX-License-Identifier: Apache-2.0
// The search of generation: its options, banned tokens, candidates, greedy or by beams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/runtime/threads.h"
#include "src/settings/settings.h"

namespace bascule {

// The options of a search for tokens, with the meaning that they have in Transformers' generation_config.json.

struct SearchOptions {
  std::int64_t vocabulary_size = 0;
  std::int64_t num_beams = 1;   // 1: greedy search
  std::int64_t max_length = 0;  // ids of a row, its start token among them; >= 1
  // A row of fewer ids than these, its start token among them, cannot end. min_new_tokens n is min_length n + 1.
  std::int64_t min_length = 0;
  double length_penalty = 1.0;  // a finished sequence's score is its log p / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::kNo;
  std::int64_t no_repeat_ngram_size = 0;  // no row has the same n-gram twice; 0: it may
  std::int32_t start_id = 0;
  std::int32_t pad_id = 0;            // for whoever lays results out in rows: the search itself pads nothing
  std::vector<std::int32_t> end_ids;  // at least one

  // How many of a sample's best continuations beam search looks at: even if every end token is among them for every
  // beam, num_beams of them go on.
  std::int64_t candidates() const { return (1 + static_cast<std::int64_t>(end_ids.size())) * num_beams; }
};

// The tokens that may not follow a sequence.

// ids: the sequence, its start token included. Banned are
// - the end tokens, while the sequence is shorter than min_length;
// - tokens that would complete an n-gram, n = no_repeat_ngram_size, which the sequence already has.
// banned: room for ids.size() + end_ids.size(); a token can stand there twice. Returns how many were written.
// Source: MinLengthLogitsProcessor and NoRepeatNGramLogitsProcessor of Transformers 5.23.
std::int64_t list_banned_tokens(std::int32_t* banned, Span<const std::int32_t> ids,
                                const SearchOptions& options) noexcept;

// The best continuations of a row, and of the rows of a sample together. Of equal scores the lower beam comes first,
// then the lower token: where torch.topk may return either, the choice here is fixed.

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

// The search of generation, greedy (num_beams 1) or by beams: which tokens are decoded next, what follows from their
// logits, and which sequence is a sample's result. It knows no model: whoever decodes asks for the rows, computes their
// logits and gives them back.
//
//   TokenSearch search(options, max_samples);                  // before the seal
//   search.seal(memory);                                       // search.bytes() of it
//   search.begin(samples);                                     // sealed from here on: nothing allocates
//   while (!search.done()) {
//     decode(search.tokens(), search.samples(), ...);          // the rows' logits
//     search.take(threads, logits, stride, top, log_sum);
//   }
//   search.generated(sample), search.score(sample);
//
// Samples may come and go, too, each with a position of its own:
//
//   search.begin(0);
//   search.join(sample, max_length); decode, take as above; if (search.has_ended(sample)) search.generated(sample);
//
// The rules are those of Transformers' generate(), in float32 as there; for beams:
// - A sample has num_beams going sequences, each with the sum of its tokens' log p. At first one has 0, and the others
//   have -1e9: all are equal then, and only the first counts unless too few tokens are possible. Hence one row is
//   decoded for all.
// - The best (1 + end tokens) * num_beams continuations are its candidates. A candidate stops if its token is an end
//   token or if it has max_length ids.
// - Candidates that stop, of the first num_beams, enter the finished list with log p / length^length_penalty, length
//   without the start token. The list keeps its num_beams best; at first it is full of empty sequences with -1e9.
// - The num_beams best go on; of a candidate that stopped counts log p - 1e9, so that it only goes on for want of
//   others.
// - The search ends when no going sequence is likely to beat the worst of the list, when early stopping is kYes and no
//   empty sequence is left in the list, or at max_length. The result is the best of the list.
//
// A sample's result does not depend on the other samples of its batch. In Transformers it does not either, although all
// samples go on there until each has met one of the three conditions: the last is met by all at once (more candidates
// than there are end tokens in all beams cannot all be end tokens), and one that has met another may still finish
// sequences, but with -1e9 added to their scores, which is no better than an empty one. Here it has no rows any more.
//
// Source: GenerationMixin._sample and ._beam_search of Transformers 5.23.

class TokenSearch : NonCopyable {
 public:
  // options: 1 <= num_beams <= vocabulary_size; for beams, vocabulary_size > the number of end tokens.
  TokenSearch(const SearchOptions& options, std::int64_t max_samples);

  std::size_t bytes() const noexcept { return bytes_; }
  // memory: bytes(), 64-byte aligned; it must outlive this.
  void seal(std::byte* memory) noexcept;

  // samples <= max_samples. Every sample has one row, its start token. With max_length 1 it is done at once.
  void begin(std::int64_t samples) noexcept;
  bool done() const noexcept { return rows_ == 0; }
  // Between two calls of take(): the sample, which has no rows, begins. max_length: its own, at most that of the
  // options.
  void join(std::int64_t sample, std::int64_t max_length) noexcept;
  // Its rows are given up; nothing is generated.
  void leave(std::int64_t sample) noexcept;
  bool has_ended(std::int64_t sample) const noexcept { return has_ended_[sample]; }

  // The rows whose next token is to be found, by sample and then by beam. A sample whose search has ended has none.
  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t live() const noexcept { return live_; }                                   // their samples
  Span<const std::int32_t> tokens() const noexcept { return {tokens_, row_count()}; }    // the last of each row
  Span<const std::int32_t> samples() const noexcept { return {samples_, row_count()}; }  // ascending
  // The ids of a row before its last.
  std::int64_t position(std::int64_t row) const noexcept { return positions_[samples_[row]]; }
  // Greedy, of a sample that take() has extended: the token that it chose.
  std::int32_t chosen(std::int64_t sample) const noexcept;

  // For caches of keys and values in slots: num_beams of them for a sample, those of sample s from s * num_beams on,
  // each with a place for every position. Row r writes what belongs to its last token into slot slots()[r] at
  // position(r), and finds what belongs to its id at p < position(r) in slot history(r)[p], at p. No place is written
  // twice in a search: sequences that part share what they have in common, and nothing is copied.
  Span<const std::int32_t> slots() const noexcept { return {slots_, row_count()}; }
  const std::int32_t* history(std::int64_t row) const noexcept;

  // logits: rows() of vocabulary_size, `stride` apart. top[r]: the largest logit of a row; log_sum[r]: log sum
  // exp(logits - top); both null for greedy search. Chooses the next tokens. The result does not depend on the number
  // of threads. Logits that are not numbers count as -infinity.
  void take(Threads& threads, const float* logits, std::int64_t stride, const float* top,
            const float* log_sum) noexcept;

  // When has_ended(sample): the ids behind the start token, up to and with the end token where the search ended with
  // one.
  Span<const std::int32_t> generated(std::int64_t sample) const noexcept;
  // Transformers' sequences_scores: -1e9 where no sequence has finished, which leaves nothing generated. Greedy: 0.
  float score(std::int64_t sample) const noexcept;

 private:
  // All unfinished sequences, by slot: a beam's own slot is that of its sequence.
  struct Sequences {
    std::int32_t* ids = nullptr;        // (slots, max_length)
    std::int32_t* histories = nullptr;  // (slots, max_length)
    float* scores = nullptr;            // (slots)
  };

  std::size_t place_arrays(std::byte* memory) noexcept;
  std::size_t row_count() const noexcept { return static_cast<std::size_t>(rows_); }
  bool is_greedy() const noexcept { return options_.num_beams == 1; }
  bool is_end(std::int32_t token) const noexcept;
  // Whether a row is full with the tokens of this step.
  bool fills_rows(std::int64_t sample) const noexcept { return positions_[sample] + 2 == max_lengths_[sample]; }
  void start(std::int64_t sample, std::int64_t max_length) noexcept;
  // Lists the rows of the samples that have not ended.
  void list_rows() noexcept;

  void find_candidates(std::int64_t row, RowLogits logits) noexcept;
  void extend_greedily(std::int64_t sample) noexcept;
  void extend_beams(std::int64_t sample) noexcept;
  bool stops(std::int64_t sample, const BeamCandidate& candidate) const noexcept {
    return fills_rows(sample) || is_end(candidate.token);
  }
  void finish_candidates(std::int64_t sample) noexcept;
  void go_on(std::int64_t sample) noexcept;
  bool can_improve(std::int64_t sample) const noexcept;
  // The result is the sequence in `slot` with one more token.
  void keep_result(std::int64_t sample, std::int64_t slot, std::int32_t token) noexcept;
  // The slot that holds a beam's sequence: at the first step all beams' is the first.
  std::int64_t slot_of(std::int64_t sample, std::int64_t beam) const noexcept {
    return sample * options_.num_beams + (positions_[sample] == 0 ? 0 : beam);
  }

  SearchOptions options_;
  std::int64_t max_samples_;
  std::int64_t candidates_;  // of a sample
  std::size_t bytes_ = 0;

  std::int64_t rows_ = 0;
  std::int64_t live_ = 0;  // samples that have rows

  // By row.
  std::int32_t *tokens_ = nullptr, *samples_ = nullptr, *slots_ = nullptr;
  // The sequences of this step and of the next one. Greedy search extends its sequences in place.
  Sequences now_, next_;
  // By slot. At the first step the second of a sample has the candidates of all beams but the first.
  Candidate* beam_candidates_ = nullptr;  // (slots, candidates_)
  BeamList* beam_lists_ = nullptr;
  std::int32_t* banned_ = nullptr;  // (slots, max_length + end tokens)
  // By sample.
  std::int32_t* live_samples_ = nullptr;  // those that have rows, ascending
  std::int64_t *positions_ = nullptr, *max_lengths_ = nullptr;
  BeamCandidate* merged_ = nullptr;   // (samples, candidates_)
  float* finished_scores_ = nullptr;  // (samples, num_beams): the finished list, best first
  std::int64_t* finished_ = nullptr;  // how many of its sequences are not empty
  std::int32_t* results_ = nullptr;   // (samples, max_length): the first of the list
  std::int64_t* result_lengths_ = nullptr;
  bool* has_ended_ = nullptr;
  float* length_powers_ = nullptr;  // [length]: length^length_penalty
};

}  // namespace bascule
