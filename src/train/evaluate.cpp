// SPDX-License-Identifier: Apache-2.0
#include "src/train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "src/base/align.h"
#include "src/base/clock.h"

namespace bascule {
BatchView view_of(const Batch& batch) {
  BatchView view;
  view.counts = {batch.counts.samples, batch.counts.text_rows, batch.counts.selected_rows};
  view.pixels = batch.pixels;
  view.token_ids = batch.token_ids;
  view.position_ids = batch.position_ids;
  view.text_offsets = batch.text_offsets;
  view.text_row_keys = batch.text_row_keys;
  view.image_row_keys = batch.image_row_keys;
  view.sample_keys = batch.sample_keys;
  view.selected_rows = batch.selected_rows;
  view.labels = batch.labels;
  return view;
}

Evaluation::Evaluation(const Shape& shape, const Tape& tape, const BridgeTowerOutputs& outputs, std::byte* memory,
                       GemmCache& products, Group& group)
    : shape_(shape),
      tape_(tape),
      outputs_(outputs),
      group_(group),
      judged_(shape, memory, products),
      agreement_(group) {}

// Of the batch that the tape ran over last.
BatchOutputs Evaluation::outputs() const noexcept {
  BatchOutputs outputs;
  outputs.loss = *tape_.at(outputs_.loss);
  if (shape_.head == ModelHead::kContrastive) {
    outputs.text_embeds = tape_.at(outputs_.text_embeds);
    outputs.image_embeds = tape_.at(outputs_.image_embeds);
    outputs.cross_embeds = tape_.at(outputs_.cross_embeds);
    return outputs;
  }
  outputs.hits = tape_.at_int32(outputs_.hits);
  if (shape_.head == ModelHead::kImageTextMatching) outputs.logits = tape_.at(outputs_.logits);
  if (outputs_.predicted) {
    outputs.predicted = tape_.at_int32(outputs_.predicted);
    outputs.probabilities = tape_.at(outputs_.probabilities);
  }
  return outputs;
}

Status Evaluation::run_own_batches(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
                                   Progress* progress) noexcept {
  const std::int64_t batches = stream.batches_per_epoch();
  stream.start(0, batches);
  for (std::int64_t i = 0; i < batches; ++i) {
    const int signal = *stop != 0 ? *stop : group_.stop_signal();
    if (signal != 0) return {StatusCode::kStopped, {signal, 0}};
    const Batch* batch = nullptr;
    group_.set_phase(RankPhase::kWaitingForData);
    BASCULE_TRY(stream.next(&batch));
    group_.set_phase(RankPhase::kEvaluating);
    BatchOutputs computed;  // none where the whole batch was left out
    if (batch->counts.samples > 0) {
      Replay replay;
      replay.batch = view_of(*batch);
      tape_.replay(threads, replay);
      computed = outputs();
    }
    judged_.take(*batch, computed, manifest);
    stream.release();
    progress->step({i + 1, -1.0, std::nan(""), 0.0}, monotonic_seconds());
  }
  return ok_status();
}

// Nodes put their parts together where each has left the others' places zero.
Status Evaluation::clear() noexcept {
  if (group_.nodes() == 1) return ok_status();
  if (group_.is_leader()) std::fill(judged_.taken().begin(), judged_.taken().end(), std::byte{0});
  return group_.local_barrier() ? ok_status() : Status{StatusCode::kRankFailed, {-1, 0}};
}

Status Evaluation::run(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
                       EvaluationRecord* record, Progress* progress) noexcept {
  const double began = monotonic_seconds();
  judged_.begin(manifest.rows(), record->split == Split::kTest && shape_.predicted_rows > 0);
  record->steps = divide_up(manifest.rows(), shape_.batch);
  progress->begin(split_name(record->split), 0, stream.batches_per_epoch(), began);
  BASCULE_TRY(clear());
  BASCULE_TRY(agreement_.settle(run_own_batches(stream, manifest, threads, stop, progress)));
  if (!group_.combine(judged_.taken())) return {StatusCode::kRankFailed, {-1, 0}};
  Status judged = ok_status();
  if (group_.is_first()) {
    judged_.finish(threads, record);
    // Rank 0 has the first batch, so the first row that was left out is in its list.
    if (record->samples == 0) judged = all_left_out(stream.replacements()[0]);
  }
  // Until the metrics are made, what they are made of stays as it is.
  BASCULE_TRY(agreement_.settle(judged));
  record->seconds = monotonic_seconds() - began;
  progress->end(monotonic_seconds());
  return ok_status();
}

}  // namespace bascule
