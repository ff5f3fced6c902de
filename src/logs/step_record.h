// SPDX-License-Identifier: Apache-2.0
// The records of a run, their metrics, and their figures by key.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "src/base/check.h"
#include "src/base/readable.h"
#include "src/base/span.h"

namespace bascule {

// A figure that an evaluation gives beside the loss. A judge lists its own (src/judge); reports walk that list and know
// none of them by name.

struct Metric {
  const char* key;    // in result files after "eval_"
  const char* title;  // for people
  int slot;           // of EvaluationRecord::metric; part of what checkpoints hold, so it never changes;
                      // below kMetricSlots, different from those of the same judge
  bool is_fraction;   // shown in percent
  bool smaller_is_better = false;
  // The place among the figures at the head of report.html and among the curves beside the loss, from 1; 0: not there.
  int headline = 0, curve = 0;
  bool is_of_generated = false;  // there only where texts are generated
  bool has_best = true;          // false: a fact, of which neither more nor less is better
  int classes = 0;               // there only where the model has so many; 0: always
};
using Metrics = Span<const Metric>;
// Recall and accuracy as percent, the others as numbers.
ShortText readable_metric(const Metric& metric, double value) noexcept;

// The records of a run: fixed-size records that sealed code writes, and a log of them in memory given before
// the seal. Progress, TensorBoard, the result files and the HTML report are all made from these records and nothing
// else.
//
//   before the seal:  capacity = planned_records(max_steps, logging_steps, kMaxStepRecords);
//                     RecordLog<StepRecord> log{Span<StepRecord>{arena memory, capacity}};
//   sealed:           log.append(record);             // noexcept, allocates nothing; thins itself when full
//   checkpoint:       save log.records(), log.appended() and log.stride(); log.restore(...) on resume
//   finish:           report.steps.assign(log.records().begin(), log.records().end());

// The phases of a step's wall time. The rest of it (logging, waiting for the lock step) is "other".
enum class StepPhase : int { kWaitForData, kForward, kBackward, kReduction, kUpdate };
inline constexpr int kStepPhases = 5;
// "waiting for data", "forward", ...
const char* step_phase_name(StepPhase phase) noexcept;

// One logging interval: the steps after the previous record up to and with global_step. All doubles, for a stable
// layout on disk; seconds are wall time of this rank, samples are global over ranks.
struct StepRecord {
  std::int64_t global_step = 0;      // updates done, counted from 1
  std::int64_t steps = 0;            // updates in this interval
  std::int64_t samples = 0;          // samples really trained in this interval
  double epoch = 0.0;                // fractional, as Hugging Face counts
  double loss = 0.0;                 // mean over the interval's steps that have one; NaN: none has
  double grad_norm = 0.0;            // of the last step, before clipping
  double learning_rate = 0.0;        // used by the last step
  double wall_seconds = 0.0;         // without evaluation and saving
  double seconds[kStepPhases] = {};  // by StepPhase
  double samples_per_second = 0.0;   // samples / wall_seconds
  // The loader, up to now: what it could deliver, and slots ready when the step asked. Then of this interval alone: how
  // long its workers waited for the step, summed over them.
  double loader_samples_per_second = 0.0;
  double ring_occupancy = 0.0;
  double loader_wait_seconds = 0.0;
};

enum class Split : std::int32_t { kTrain, kValidation, kTest };
// "train", "validation", "test".
const char* split_name(Split split) noexcept;
// The prefix of an evaluation's figures: "eval" or "test", for averaged weights "eval_ema" or "test_ema".
inline const char* figure_prefix(Split split, bool averaged) noexcept {
  if (split == Split::kTest) return averaged ? "test_ema" : "test";
  return averaged ? "eval_ema" : "eval";
}

inline constexpr int kMetricSlots = 16;

// One evaluation of a whole split.
struct EvaluationRecord {
  EvaluationRecord() noexcept;  // every metric absent

  std::int64_t global_step = 0;
  std::int64_t samples = 0;
  std::int64_t steps = 0;
  Split split = Split::kValidation;
  std::int16_t repeats = 0;   // 1: an earlier evaluation was of the same weights and rows
  std::int16_t averaged = 0;  // 1: of the average of the weights
  double epoch = 0.0;
  double loss = 0.0;  // NaN: it is a mean over labelled tokens, and there was none
  double seconds = 0.0;
  double metric[kMetricSlots];  // by Metric::slot; NaN: the judge has none there

  double& operator[](const Metric& which) noexcept { return metric[which.slot]; }
  double operator[](const Metric& which) const noexcept { return metric[which.slot]; }
};

// Sums over all records of this process, also of those that a log has thinned away.
struct StepTotals {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double wall_seconds = 0.0;
  double seconds[kStepPhases] = {};

  void add(const StepRecord& record) noexcept;
};

inline constexpr std::size_t kMaxStepRecords = 4096;
inline constexpr std::size_t kMaxEvaluationRecords = 512;

// How many records a run of max_steps writes at one every `interval` steps (and one at its end), at least 2, even, at
// most `limit`. Memory: sizeof(Record) times that.
std::size_t planned_records(std::int64_t max_steps, std::int64_t interval, std::size_t limit) noexcept;

// Keeps records in order in memory that the caller gave. When full it forgets every second one and from then on keeps
// only every stride()-th, so that a run of any length leaves an evenly spaced curve. The newest record is always the
// last one. One thread writes; nothing else reads meanwhile.
template <typename Record>
class RecordLog {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  RecordLog() = default;
  // storage: at least 2 records, kept alive by the caller; its content is overwritten.
  explicit RecordLog(Span<Record> storage) noexcept : storage_(storage) { BASCULE_CHECK(storage.size() >= 2); }

  void append(const Record& record) noexcept {
    BASCULE_DCHECK(!storage_.empty());
    // The last place holds the newest record only as a guest unless it falls on the stride.
    if (guest_) --size_;
    if (size_ == storage_.size()) thin();
    storage_[size_++] = record;
    guest_ = appended_ % stride_ != 0;
    ++appended_;
  }

  Span<const Record> records() const noexcept { return Span<const Record>(storage_.data(), size_); }
  // Records appended in all, and one in how many is kept.
  std::uint64_t appended() const noexcept { return appended_; }
  std::uint64_t stride() const noexcept { return stride_; }

  // How many records a log keeps of so many appended: one in `stride`, and the newest.
  static std::uint64_t kept(std::uint64_t appended, std::uint64_t stride) noexcept {
    if (appended == 0 || stride == 0) return 0;
    return (appended - 1) / stride + 1 + ((appended - 1) % stride != 0 ? 1 : 0);
  }

  // Takes up where a saved log was, thinned where this log has less room. False, and nothing done, if it is no log
  // (written by another version or with another plan).
  [[nodiscard]] bool restore(Span<const Record> records, std::uint64_t appended, std::uint64_t stride) noexcept {
    if (stride == 0 || records.size() > appended || (records.empty() != (appended == 0))) return false;
    const bool guest = appended > 0 && (appended - 1) % stride != 0;
    const std::size_t regular = records.size() - (guest ? 1 : 0);
    std::size_t step = 1;  // every step-th of them is kept, and the newest
    const auto needed = [&] { return (regular + step - 1) / step + ((appended - 1) % (stride * step) != 0 ? 1 : 0); };
    while (appended > 0 && needed() > storage_.size()) step *= 2;
    size_ = 0;
    for (std::size_t i = 0; i < regular; i += step) storage_[size_++] = records[i];
    appended_ = appended;
    stride_ = stride * step;
    guest_ = appended > 0 && (appended - 1) % stride_ != 0;
    if (guest_) storage_[size_++] = records[records.size() - 1];
    return true;
  }

 private:
  void thin() noexcept {
    // Kept records are numbers 0, stride, 2 stride, ... of those appended: every second of them falls on the new
    // stride.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; i += 2) storage_[kept++] = storage_[i];
    size_ = kept;
    stride_ *= 2;
  }

  Span<Record> storage_;
  std::size_t size_ = 0;
  std::uint64_t appended_ = 0;
  std::uint64_t stride_ = 1;
  bool guest_ = false;
};

// The figures of a record under the keys that log.jsonl and MLflow have for them. noexcept, allocates nothing.

// visit(key, value): a double or an integer. The key lives until visit() returns.
template <typename Visit>
void visit_figures(const StepRecord& record, const Visit& visit) noexcept {
  visit("epoch", record.epoch);
  visit("loss", record.loss);
  visit("grad_norm", record.grad_norm);
  visit("learning_rate", record.learning_rate);
  visit("samples_per_second", record.samples_per_second);
}

template <typename Visit>
void visit_figures(const EvaluationRecord& record, Metrics metrics, const Visit& visit) noexcept {
  const char* const prefix = figure_prefix(record.split, record.averaged != 0);
  char key[64];
  const auto named = [&](const char* name) {
    std::snprintf(key, sizeof key, "%s_%s", prefix, name);
    return key;
  };
  visit("epoch", record.epoch);
  if (!std::isnan(record.loss)) visit(named("loss"), record.loss);  // NaN: nothing had a label
  visit(named("runtime"), record.seconds);
  visit(named("samples"), record.samples);
  for (const Metric& metric : metrics) {
    if (!std::isnan(record[metric])) visit(named(metric.key), record[metric]);
  }
}

// One figure of an evaluation, chosen by its name in the result files: the loss, or a metric of the judge. Before the
// seal, but for reading the figure.

// Without the split that it may be written with: "loss" of "eval_loss" and of "validation_loss".
std::string_view figure_name(std::string_view name);

class EvaluationFigure {
 public:
  // One that has a best. "loss", "eval_loss" and "validation_loss" are the same. Nothing where the judge has no such
  // figure of so many classes. The metrics must outlive it.
  static std::optional<EvaluationFigure> named(std::string_view name, Metrics metrics, std::size_t classes = 0);
  // "loss, accuracy or auc": those that named() finds.
  static std::string names_of(Metrics metrics, std::size_t classes = 0);

  const char* name() const noexcept { return metric_ != nullptr ? metric_->key : "loss"; }
  bool is_of_generated() const noexcept { return metric_ != nullptr && metric_->is_of_generated; }
  double of(const EvaluationRecord& record) const noexcept {
    return metric_ != nullptr ? record[*metric_] : record.loss;
  }
  // By its number(); the loss where no metric has it.
  static EvaluationFigure numbered(int number, Metrics metrics);
  // Checkpoints hold it, so it stays the same from version to version. The figures of one judge have different numbers.
  int number() const noexcept { return metric_ != nullptr ? metric_->slot + 1 : 0; }

 private:
  const Metric* metric_ = nullptr;  // null: the loss
};

}  // namespace bascule
