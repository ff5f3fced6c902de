// SPDX-License-Identifier: Apache-2.0
#include "src/generate/token_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/base/elementary.h"

namespace bascule {

std::int64_t list_banned_tokens(std::int32_t* banned, Span<const std::int32_t> ids,
                                const SearchOptions& options) noexcept {
  std::int64_t count = 0;
  const auto length = static_cast<std::int64_t>(ids.size());
  const std::int64_t ngram = options.no_repeat_ngram_size;
  if (ngram > 0 && length >= ngram) {
    // The last n - 1 ids, of which there are none where n is 1: then every id is banned.
    const std::int32_t* const last = ids.end() - (ngram - 1);
    for (const std::int32_t* place = ids.begin(); place + ngram <= ids.end(); ++place) {
      if (std::equal(last, ids.end(), place)) banned[count++] = place[ngram - 1];
    }
  }
  if (length < options.min_length) {
    for (const std::int32_t end : options.end_ids) banned[count++] = end;
  }
  return count;
}

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

namespace {

// Transformers adds this to the score of a sequence that is to be chosen last.
constexpr float kLast = -1.0e9f;

float length_power(std::int64_t length, double penalty) noexcept {
  const auto base = static_cast<double>(length);
  return static_cast<float>(penalty < 0.0 ? 1.0 / fixed_power(base, -penalty) : fixed_power(base, penalty));
}

}  // namespace

TokenSearch::TokenSearch(const SearchOptions& options, std::int64_t max_samples)
    : options_(options), max_samples_(max_samples), candidates_(options.num_beams == 1 ? 1 : options.candidates()) {
  BASCULE_CHECK(options.max_length >= 1 && !options.end_ids.empty());
  BASCULE_CHECK(options.num_beams >= 1 && options.num_beams <= options.vocabulary_size);
  // Else beams would have fewer candidates than they look at.
  BASCULE_CHECK(candidates_ <= options.num_beams * options.vocabulary_size);
  bytes_ = place_arrays(nullptr);
}

void TokenSearch::seal(std::byte* memory) noexcept {
  place_arrays(memory);
  for (std::int64_t length = 1; length < options_.max_length; ++length) {
    length_powers_[length] = length_power(length, options_.length_penalty);
  }
}

std::size_t TokenSearch::place_arrays(std::byte* memory) noexcept {
  ArrayCutter cutter(memory);
  const std::int64_t slots = max_samples_ * options_.num_beams, length = options_.max_length;
  for (std::int32_t** const array : {&tokens_, &samples_, &slots_}) cutter.cut(array, slots);
  for (Sequences* const sequences : {&now_, &next_}) {
    if (sequences == &next_ && is_greedy()) continue;
    cutter.cut(&sequences->ids, slots * length);
    cutter.cut(&sequences->histories, slots * length);
    cutter.cut(&sequences->scores, slots);
  }
  cutter.cut(&beam_candidates_, slots * candidates_);
  cutter.cut(&beam_lists_, slots);
  cutter.cut(&banned_, slots * (length + static_cast<std::int64_t>(options_.end_ids.size())));
  cutter.cut(&live_samples_, max_samples_);
  cutter.cut(&positions_, max_samples_);
  cutter.cut(&max_lengths_, max_samples_);
  cutter.cut(&merged_, max_samples_ * candidates_);
  cutter.cut(&finished_scores_, slots);
  cutter.cut(&finished_, max_samples_);
  cutter.cut(&results_, max_samples_ * length);
  cutter.cut(&result_lengths_, max_samples_);
  cutter.cut(&has_ended_, max_samples_);
  cutter.cut(&length_powers_, length);
  return cutter.used_bytes();
}

void TokenSearch::begin(std::int64_t samples) noexcept {
  BASCULE_DCHECK(samples >= 0 && samples <= max_samples_);
  std::fill_n(has_ended_, max_samples_, true);
  for (std::int64_t sample = 0; sample < samples; ++sample) start(sample, options_.max_length);
  list_rows();
}

void TokenSearch::start(std::int64_t sample, std::int64_t max_length) noexcept {
  positions_[sample] = 0;
  max_lengths_[sample] = max_length;
  std::fill_n(finished_scores_ + sample * options_.num_beams, options_.num_beams, kLast);
  finished_[sample] = 0;
  result_lengths_[sample] = 0;
  has_ended_[sample] = max_length == 1;
  const std::int64_t slot = slot_of(sample, 0);
  now_.ids[slot * options_.max_length] = options_.start_id;
  now_.scores[slot] = 0.0f;
}

void TokenSearch::join(std::int64_t sample, std::int64_t max_length) noexcept {
  BASCULE_CHECK(has_ended_[sample] && max_length <= options_.max_length);
  start(sample, max_length);
  list_rows();
}

void TokenSearch::leave(std::int64_t sample) noexcept {
  has_ended_[sample] = true;
  result_lengths_[sample] = 0;
  list_rows();
}

std::int32_t TokenSearch::chosen(std::int64_t sample) const noexcept {
  return has_ended_[sample] ? results_[sample * options_.max_length + result_lengths_[sample] - 1]
                            : now_.ids[sample * options_.max_length + positions_[sample]];
}

const std::int32_t* TokenSearch::history(std::int64_t row) const noexcept {
  return now_.histories + slots_[row] * options_.max_length;
}

void TokenSearch::take(Threads& threads, const float* logits, std::int64_t stride, const float* top,
                       const float* log_sum) noexcept {
  run_tasks(threads, rows_, [&](std::int64_t row) {
    RowLogits of_row;
    of_row.logits = logits + row * stride;
    of_row.vocabulary_size = options_.vocabulary_size;
    if (!is_greedy()) {
      of_row.top = top[row];
      of_row.log_sum = log_sum[row];
    }
    find_candidates(row, of_row);
    if (is_greedy()) extend_greedily(samples_[row]);
  });
  if (!is_greedy()) {
    run_tasks(threads, live_, [&](std::int64_t i) { extend_beams(live_samples_[i]); });
    std::swap(now_, next_);
  }
  for (std::int64_t i = 0; i < live_; ++i) ++positions_[live_samples_[i]];
  list_rows();
}

Span<const std::int32_t> TokenSearch::generated(std::int64_t sample) const noexcept {
  BASCULE_DCHECK(has_ended_[sample]);
  return {results_ + sample * options_.max_length, static_cast<std::size_t>(result_lengths_[sample])};
}

float TokenSearch::score(std::int64_t sample) const noexcept {
  BASCULE_DCHECK(has_ended_[sample]);
  return is_greedy() ? 0.0f : finished_scores_[sample * options_.num_beams];
}

bool TokenSearch::is_end(std::int32_t token) const noexcept {
  return std::find(options_.end_ids.begin(), options_.end_ids.end(), token) != options_.end_ids.end();
}

void TokenSearch::list_rows() noexcept {
  rows_ = live_ = 0;
  for (std::int64_t sample = 0; sample < max_samples_; ++sample) {
    if (has_ended_[sample]) continue;
    live_samples_[live_++] = static_cast<std::int32_t>(sample);
    const std::int64_t beams = positions_[sample] == 0 ? 1 : options_.num_beams;
    for (std::int64_t beam = 0; beam < beams; ++beam) {
      const std::int64_t slot = sample * options_.num_beams + beam;
      tokens_[rows_] = now_.ids[slot * options_.max_length + positions_[sample]];
      samples_[rows_] = static_cast<std::int32_t>(sample);
      slots_[rows_] = static_cast<std::int32_t>(slot);
      ++rows_;
    }
  }
}

void TokenSearch::find_candidates(std::int64_t row, RowLogits logits) noexcept {
  const std::int64_t slot = slots_[row], position = this->position(row);
  const Span<const std::int32_t> ids(now_.ids + slot * options_.max_length, static_cast<std::size_t>(position + 1));
  std::int32_t* const banned =
      banned_ + slot * (options_.max_length + static_cast<std::int64_t>(options_.end_ids.size()));
  const Span<const std::int32_t> all_banned(banned,
                                            static_cast<std::size_t>(list_banned_tokens(banned, ids, options_)));

  Candidate* const best = beam_candidates_ + slot * candidates_;
  logits.running = now_.scores[slot];
  const std::int64_t count = best_tokens(best, candidates_, logits, all_banned);
  beam_lists_[slot] = {best, count, 0};
  if (is_greedy() || position > 0) return;
  // The other beams. No score of theirs is above -1e9, so that they are not needed where the first beam alone has
  // candidates enough which are no worse.
  const bool are_needed = count < candidates_ || best[count - 1].score < kLast;
  Candidate* const others = best + candidates_;
  logits.running = kLast;
  beam_lists_[slot + 1] = {others, are_needed ? best_tokens(others, candidates_, logits, all_banned) : 0, 0};
  for (std::int64_t beam = 2; beam < options_.num_beams; ++beam) beam_lists_[slot + beam] = beam_lists_[slot + 1];
}

// A sample has one slot, of its own number.
void TokenSearch::extend_greedily(std::int64_t sample) noexcept {
  const std::int32_t token = beam_candidates_[sample].token;
  if (fills_rows(sample) || is_end(token)) {
    keep_result(sample, sample, token);
    has_ended_[sample] = true;
    return;
  }
  const std::int64_t place = sample * options_.max_length + positions_[sample];
  now_.ids[place + 1] = token;
  now_.histories[place] = static_cast<std::int32_t>(sample);
}

void TokenSearch::extend_beams(std::int64_t sample) noexcept {
  BeamCandidate* const merged = merged_ + sample * candidates_;
  merge_beams(merged, candidates_,
              {beam_lists_ + sample * options_.num_beams, static_cast<std::size_t>(options_.num_beams)});
  finish_candidates(sample);
  go_on(sample);
  const bool list_is_final = options_.early_stopping == EarlyStopping::kYes && finished_[sample] == options_.num_beams;
  has_ended_[sample] = fills_rows(sample) || list_is_final || !can_improve(sample);
}

void TokenSearch::finish_candidates(std::int64_t sample) noexcept {
  const std::int64_t beams = options_.num_beams;
  float* const scores = finished_scores_ + sample * beams;
  for (std::int64_t i = 0; i < beams; ++i) {
    const BeamCandidate& candidate = merged_[sample * candidates_ + i];
    if (!stops(sample, candidate)) continue;
    const float score = candidate.score / length_powers_[positions_[sample] + 1];
    if (!(score > scores[beams - 1])) continue;
    std::int64_t place = beams - 1;
    for (; place > 0 && score > scores[place - 1]; --place) scores[place] = scores[place - 1];
    scores[place] = score;
    finished_[sample] = std::min(finished_[sample] + 1, beams);
    if (place == 0) keep_result(sample, slot_of(sample, candidate.beam), candidate.token);
  }
}

void TokenSearch::go_on(std::int64_t sample) noexcept {
  BeamCandidate* const merged = merged_ + sample * candidates_;
  for (std::int64_t i = 0; i < candidates_; ++i) {
    BeamCandidate candidate = merged[i];
    if (stops(sample, candidate)) candidate.score += kLast;
    std::int64_t place = i;
    for (; place > 0 && candidate.score > merged[place - 1].score; --place) merged[place] = merged[place - 1];
    merged[place] = candidate;
  }
  const std::int64_t length = options_.max_length, position = positions_[sample];
  for (std::int64_t beam = 0; beam < options_.num_beams; ++beam) {
    const BeamCandidate& chosen = merged[beam];
    const std::int64_t from = slot_of(sample, chosen.beam), to = sample * options_.num_beams + beam;
    std::int32_t* const ids = next_.ids + to * length;
    *std::copy_n(now_.ids + from * length, position + 1, ids) = chosen.token;
    std::int32_t* const history = next_.histories + to * length;
    *std::copy_n(now_.histories + from * length, position, history) = static_cast<std::int32_t>(from);
    next_.scores[to] = chosen.score;
  }
}

bool TokenSearch::can_improve(std::int64_t sample) const noexcept {
  const bool grows = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0.0;
  const float best = next_.scores[sample * options_.num_beams] /
                     length_powers_[grows ? max_lengths_[sample] - 1 : positions_[sample] + 1];
  return best > finished_scores_[(sample + 1) * options_.num_beams - 1];
}

void TokenSearch::keep_result(std::int64_t sample, std::int64_t slot, std::int32_t token) noexcept {
  const std::int32_t* const ids = now_.ids + slot * options_.max_length;
  const std::int64_t position = positions_[sample];
  *std::copy(ids + 1, ids + position + 1, results_ + sample * options_.max_length) = token;
  result_lengths_[sample] = position + 1;
}

}  // namespace bascule
