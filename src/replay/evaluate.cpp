// SPDX-License-Identifier: Apache-2.0
#include "src/replay/evaluate.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "src/base/clock.h"

namespace bascule {
namespace {

// Shows how far texts are, whose generation may take minutes a batch, and ends it for a signal to this rank or another.
class ShownDecoding final : public DecodingWatch {
 public:
  ShownDecoding(Progress& progress, Group& group, const volatile int* stop)
      : progress_(progress), group_(group), stop_(stop), began_(monotonic_seconds()) {}

  // One that reaches this rank alone is passed on to the others of its node.
  int signal() noexcept {
    if (*stop_ != 0) group_.stop_all(*stop_);
    return group_.stop_signal();
  }
  int decoded(std::int64_t rows, std::int64_t ended) noexcept override {
    tokens_ += static_cast<double>(rows);
    show(batches_, ended);
    return signal();
  }
  // rows: that have ended, of the batch that is not done.
  void show(std::int64_t batches, std::int64_t rows = 0) noexcept {
    batches_ = batches;
    const double now = monotonic_seconds();
    ProgressStep step{batches_, -1.0, std::nan(""), 0.0};
    step.tokens_per_second = tokens_ / (now - began_);
    step.rows_of_next = rows;
    progress_.step(step, now);
  }

 private:
  Progress& progress_;
  Group& group_;
  const volatile int* stop_;
  const double began_;
  double tokens_ = 0.0;
  std::int64_t batches_ = 0;
};

}  // namespace

Status Evaluation::run_own_batches(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
                                   Progress* progress) noexcept {
  const std::int64_t batches = stream.batches_per_epoch();
  stream.start(0, batches);
  ShownDecoding shown(*progress, group_, stop);
  for (std::int64_t i = 0; i < batches; ++i) {
    if (const int signal = shown.signal(); signal != 0) return {StatusCode::kStopped, {signal, 0}};
    const Batch* batch = nullptr;
    group_.set_phase(RankPhase::kWaitingForData);
    BASCULE_TRY(stream.next(&batch));
    group_.set_phase(RankPhase::kEvaluating);
    if (batch->counts.samples() > 0)
      BASCULE_TRY(runner_.run(*batch, threads, &shown));  // else the whole batch was left out
    judge_.take(*batch, manifest);
    stream.release();
    shown.show(i + 1);
  }
  return ok_status();
}

// Nodes put their parts together where each has left the others' places zero.
Status Evaluation::clear() noexcept {
  if (group_.nodes() == 1) return ok_status();
  if (group_.is_leader()) std::fill(judge_.taken().begin(), judge_.taken().end(), std::byte{0});
  return group_.local_barrier() ? ok_status() : Status{StatusCode::kRankFailed, {-1, 0}};
}

Status Evaluation::run(Stream& stream, const Manifest& manifest, bool keeps_predictions, Threads& threads,
                       const volatile int* stop, EvaluationRecord* record, Progress* progress) noexcept {
  const double began = monotonic_seconds();
  judge_.begin(manifest.rows(), keeps_predictions);
  record->steps = divide_up(manifest.rows(), batch_);
  progress->begin(split_name(record->split), 0, stream.batches_per_epoch(), began);
  BASCULE_TRY(clear());
  const Status computed = agreement_.reach(run_own_batches(stream, manifest, threads, stop, progress));
  if (computed.code == StatusCode::kStopped) group_.stop_all(static_cast<int>(computed.detail[0]));  // of every node
  BASCULE_TRY(computed);
  if (!group_.combine(judge_.taken())) return {StatusCode::kRankFailed, {-1, 0}};
  Status judged = ok_status();
  if (group_.is_first()) {
    judge_.finish(threads, record);
    if (manifest.is_unlabelled()) {
      record->loss = std::numeric_limits<double>::quiet_NaN();
      std::fill(std::begin(record->metric), std::end(record->metric), record->loss);
    }
    // Rank 0 has the first batch, so the first row that was left out is in its list.
    if (record->samples == 0) judged = all_left_out(stream.replacements()[0]);
  }
  // Until the metrics are made, what they are made of stays as it is.
  BASCULE_TRY(agreement_.reach(judged));
  record->seconds = monotonic_seconds() - began;
  progress->end(monotonic_seconds());
  return ok_status();
}

}  // namespace bascule
