// SPDX-License-Identifier: Apache-2.0
#include "src/judge/judge.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace bascule {
namespace {

// In judged_, for a row that was left out.
constexpr std::int32_t kLeftOut = -1;

}  // namespace

Judge::Judge(const JudgeShape& shape) : shape_(shape) {
  BASCULE_CHECK(shape.losses.size() <= kMaxLossTerms);
  plan(Part::kRows, &sums_, divide_up(shape.max_rows, shape.batch) * static_cast<std::int64_t>(shape.losses.size()));
  plan(Part::kRows, &judged_, align_up<std::int64_t>(shape.max_rows, 16));
  for (std::size_t t = 0; t < shape.losses.size(); ++t) read(&losses_[t], shape.losses[t].output);
}

void Judge::plan_bytes(Part part, std::size_t bytes, std::function<void(std::byte*)> place) {
  parts_.push_back({part, align_up(bytes, kCacheLine), std::move(place)});
  (part == Part::kOwn ? own_bytes_ : bytes_) += parts_.back().bytes;
}

void Judge::seal(std::byte* memory, std::byte* own_memory, const std::vector<JudgedOutput>& outputs,
                 GemmLibrary& products) {
  std::size_t at = 0;
  for (const Part part : {Part::kRows, Part::kPredictions, Part::kScratch}) {
    for (const PlannedPart& planned : parts_) {
      if (planned.part != part) continue;
      planned.place(memory + at);
      at += planned.bytes;
    }
    if (part == Part::kRows) row_bytes_ = at;
    if (part != Part::kScratch) taken_bytes_ = at;
  }
  std::byte* own = own_memory;
  for (const PlannedPart& planned : parts_) {
    if (planned.part != Part::kOwn) continue;
    planned.place(own);
    own += planned.bytes;
  }
  memory_ = memory;
  shape_.outputs = outputs;
  for (const ReadOutput& one : read_) one.place(output(one.name).address);
  found(products);
}

const JudgedOutput& Judge::output(std::string_view name) const {
  const auto found = std::find_if(shape_.outputs.begin(), shape_.outputs.end(),
                                  [&](const JudgedOutput& output) { return output.name == name; });
  BASCULE_CHECK(found != shape_.outputs.end());
  return *found;
}

int Judge::field_number(std::string_view name) const {
  const int number = field_named(shape_.fields, name);
  BASCULE_CHECK(number >= 0);
  return number;
}

void Judge::read_output(std::string_view name, std::function<void(const void*)> place) {
  read_.push_back({output(name).name, std::move(place)});
}

Span<std::byte> Judge::taken() const { return {memory_, keeps_predictions_ ? taken_bytes_ : row_bytes_}; }

void Judge::begin(std::int64_t rows, bool keeps_predictions) noexcept {
  BASCULE_CHECK(!keeps_predictions || rows <= shape_.predicted_rows);
  rows_ = rows;
  keeps_predictions_ = keeps_predictions;
}

void Judge::take(const Batch& batch, const Manifest& manifest) noexcept {
  const std::int64_t samples = batch.counts.samples(), first = batch.first_position;
  std::fill_n(judged_ + first, batch.positions, kLeftOut);
  for (std::int64_t s = 0; s < samples; ++s) judged_[batch.rows[s]] = static_cast<std::int32_t>(batch.rows[s]);
  const std::size_t terms = shape_.losses.size();
  Sums* const sums = sums_ + static_cast<std::size_t>(first / shape_.batch) * terms;
  std::fill_n(sums, terms, Sums());
  if (samples == 0) return;
  for (std::size_t t = 0; t < terms; ++t) {
    sums[t].counted = static_cast<double>(batch.counts[shape_.losses[t].stream]);
    sums[t].loss = static_cast<double>(*losses_[t]) * sums[t].counted;
  }
  take_rows(batch, manifest, sums);
}

// The rows judged move together, over those left out.
void Judge::close_gaps() noexcept {
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (judged_[row] == kLeftOut) continue;
    if (kept != row) {
      judged_[kept] = judged_[row];
      move_row(kept, row);
    }
    ++kept;
  }
  rows_ = kept;
}

void Judge::finish(Threads& threads, EvaluationRecord* record) noexcept {
  const std::int64_t batches = divide_up(rows_, shape_.batch);
  close_gaps();
  record->samples = rows_;
  if (rows_ == 0) return;
  const std::int64_t terms = static_cast<std::int64_t>(shape_.losses.size());
  Sums all[kMaxLossTerms];
  for (std::int64_t i = 0; i < batches * terms; ++i) {
    Sums& of_term = all[i % terms];
    of_term.loss += sums_[i].loss;
    of_term.counted += sums_[i].counted;
    of_term.right += sums_[i].right;
  }
  record->loss = 0.0;
  for (std::int64_t t = 0; t < terms; ++t) record->loss += all[t].mean();
  if (std::all_of(all, all + terms, [](const Sums& of_term) { return of_term.counted == 0.0; }))
    record->loss = std::nan("");  // a mean of nothing, as where no token is masked, or no loss at all
  judge_rows(threads, all, record);
}

extern const JudgeKind kContrastiveRetrieval, kMatching, kMaskedTokens, kClasses, kPretraining, kTargetTokens,
    kSequenceClasses, kSequenceValues, kSentenceSimilarity, kSentenceRetrieval, kTokenTags;  // each in its own file

namespace {

std::vector<const JudgeKind*>& judges() {
  static std::vector<const JudgeKind*> all = {
      &kContrastiveRetrieval, &kMatching,          &kMaskedTokens,    &kClasses,
      &kPretraining,          &kTargetTokens,      &kSequenceClasses, &kSequenceValues,
      &kSentenceSimilarity,   &kSentenceRetrieval, &kTokenTags};
  return all;
}

}  // namespace

const JudgeKind& judge_named(std::string_view name) {
  const auto found =
      std::find_if(judges().begin(), judges().end(), [&](const JudgeKind* kind) { return kind->name == name; });
  BASCULE_CHECK(found != judges().end());
  for (const Metric& metric : (*found)->metrics) BASCULE_CHECK(metric.slot >= 0 && metric.slot < kMetricSlots);
  return **found;
}

void add_judge(const JudgeKind& kind) { judges().push_back(&kind); }

}  // namespace bascule
