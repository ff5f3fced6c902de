// SPDX-License-Identifier: Apache-2.0
#include "src/train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "src/base/align.h"
#include "src/train/clock.h"

namespace bascule {
namespace {

// Where each part of the memory begins.
struct Parts {
  std::size_t sums, text, image, cross, scores, pictures, shown, labels, order, retrieval, all;
};

Parts parts_of(const Evaluation::Shape& shape) {
  const std::size_t rows = static_cast<std::size_t>(align_up<std::int64_t>(shape.max_rows, 16));
  const std::size_t embeds = rows * static_cast<std::size_t>(shape.width) * sizeof(float);
  const bool contrastive = shape.head == ModelHead::kContrastive,
             matching = shape.head == ModelHead::kImageTextMatching;
  Parts parts{};
  std::size_t at = 0;
  const auto take = [&](bool needed, std::size_t bytes) {
    const std::size_t begin = at;
    if (needed) at = align_up(at + bytes, kCacheLine);
    return begin;
  };
  parts.sums = take(true, static_cast<std::size_t>(divide_up(shape.max_rows, shape.batch)) * 3 * sizeof(double));
  parts.text = take(contrastive, embeds);
  parts.image = take(contrastive, embeds);
  parts.cross = take(contrastive, embeds);
  parts.scores = take(matching, rows * sizeof(float));
  parts.pictures = take(contrastive, rows * sizeof(std::int32_t));
  parts.shown = take(contrastive, rows * sizeof(std::int32_t));
  parts.labels = take(matching, rows * sizeof(std::int32_t));
  parts.order = take(matching, rows * sizeof(std::int32_t));
  parts.retrieval = take(contrastive, Retrieval::bytes(shape.max_rows));
  parts.all = at;
  return parts;
}

}  // namespace

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

std::size_t Evaluation::bytes(const Shape& shape) { return parts_of(shape).all; }

Evaluation::Evaluation(const Shape& shape, const Tape& tape, const BridgeTowerOutputs& outputs, std::byte* memory,
                       GemmCache& products, Group& group)
    : shape_(shape), tape_(tape), outputs_(outputs), group_(group), agreement_(group) {
  static_assert(sizeof(BatchSums) == 3 * sizeof(double));
  const Parts parts = parts_of(shape);
  kept_ = {memory, parts.order};
  const auto floats = [&](std::size_t at) { return static_cast<float*>(static_cast<void*>(memory + at)); };
  const auto integers = [&](std::size_t at) { return static_cast<std::int32_t*>(static_cast<void*>(memory + at)); };
  sums_ = static_cast<BatchSums*>(static_cast<void*>(memory + parts.sums));
  text_ = floats(parts.text);
  image_ = floats(parts.image);
  cross_ = floats(parts.cross);
  scores_ = floats(parts.scores);
  pictures_ = integers(parts.pictures);
  shown_ = integers(parts.shown);
  labels_ = integers(parts.labels);
  order_ = integers(parts.order);
  if (shape.head == ModelHead::kContrastive)
    retrieval_ = std::make_unique<Retrieval>(shape.max_rows, shape.width, memory + parts.retrieval, products);
}

void Evaluation::take(const Batch& batch, const Manifest& manifest) noexcept {
  const std::int64_t samples = batch.counts.samples, first = batch.first_position;
  const double weight = static_cast<double>(shape_.head == ModelHead::kMaskedLm ? batch.counts.selected_rows : samples);
  BatchSums& sums = sums_[first / shape_.batch];
  sums = {static_cast<double>(*tape_.at(outputs_.loss)) * weight, weight, 0.0};
  if (shape_.head == ModelHead::kContrastive) {
    const std::int64_t from = first * shape_.width, count = samples * shape_.width;
    std::copy_n(tape_.at(outputs_.text_embeds), count, text_ + from);
    std::copy_n(tape_.at(outputs_.image_embeds), count, image_ + from);
    std::copy_n(tape_.at(outputs_.cross_embeds), count, cross_ + from);
    for (std::int64_t s = 0; s < samples; ++s) {
      pictures_[first + s] = static_cast<std::int32_t>(manifest.image_id(batch.rows[s]));
      shown_[first + s] = static_cast<std::int32_t>(batch.rows[s]);
    }
    return;
  }
  const std::int32_t* hits = tape_.at_int32(outputs_.hits);
  const std::int64_t judged = shape_.head == ModelHead::kMaskedLm ? batch.counts.selected_rows : samples;
  for (std::int64_t i = 0; i < judged; ++i) sums.hits += hits[i];
  if (shape_.head != ModelHead::kImageTextMatching) return;
  const float* logits = tape_.at(outputs_.logits);
  for (std::int64_t s = 0; s < samples; ++s) {
    scores_[first + s] = logits[2 * s + 1] - logits[2 * s];
    labels_[first + s] = batch.labels[s];
  }
}

void Evaluation::finish(Threads& threads, EvaluationRecord* record) noexcept {
  BatchSums all;
  for (std::int64_t batch = 0; batch < record->steps; ++batch) {
    all.loss += sums_[batch].loss;
    all.counted += sums_[batch].counted;
    all.hits += sums_[batch].hits;
  }
  record->loss = all.counted > 0.0 ? all.loss / all.counted : 0.0;
  if (shape_.head == ModelHead::kContrastive) {
    const Recall text = retrieval_->measure(threads, text_, image_, pictures_, rows_);
    const Recall image = retrieval_->measure(threads, image_, text_, pictures_, rows_);
    (*record)[Metric::kTextToImageRecall1] = text.at_1;
    (*record)[Metric::kTextToImageRecall5] = text.at_5;
    (*record)[Metric::kTextToImageRecall10] = text.at_10;
    (*record)[Metric::kImageToTextRecall1] = image.at_1;
    (*record)[Metric::kImageToTextRecall5] = image.at_5;
    (*record)[Metric::kImageToTextRecall10] = image.at_10;
    return;
  }
  (*record)[Metric::kAccuracy] = all.counted > 0.0 ? all.hits / all.counted : 0.0;
  if (shape_.head == ModelHead::kMaskedLm) (*record)[Metric::kPerplexity] = std::exp(record->loss);
  if (shape_.head == ModelHead::kImageTextMatching)
    (*record)[Metric::kAreaUnderCurve] = area_under_curve(scores_, labels_, order_, rows_);
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
    Replay replay;
    replay.batch = view_of(*batch);
    tape_.replay(threads, replay);
    take(*batch, manifest);
    stream.release();
    progress->step({i + 1, -1.0, std::nan(""), 0.0}, monotonic_seconds());
  }
  return ok_status();
}

// Nodes put their parts together where each has left the others' places zero.
Status Evaluation::clear() noexcept {
  if (group_.nodes() == 1) return ok_status();
  if (group_.is_leader()) std::fill(kept_.begin(), kept_.end(), std::byte{0});
  return group_.local_barrier() ? ok_status() : Status{StatusCode::kRankFailed, {-1, 0}};
}

Status Evaluation::run(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
                       EvaluationRecord* record, Progress* progress) noexcept {
  const double began = monotonic_seconds();
  rows_ = manifest.rows();
  record->samples = rows_;
  record->steps = divide_up(rows_, shape_.batch);
  progress->begin(split_name(record->split), 0, stream.batches_per_epoch(), began);
  BASCULE_TRY(clear());
  BASCULE_TRY(agreement_.settle(run_own_batches(stream, manifest, threads, stop, progress)));
  if (!group_.combine(kept_)) return {StatusCode::kRankFailed, {-1, 0}};
  if (group_.is_first()) finish(threads, record);
  // Until the metrics are made, what they are made of stays as it is.
  BASCULE_TRY(agreement_.settle(ok_status()));
  record->seconds = monotonic_seconds() - began;
  progress->end(monotonic_seconds());
  return ok_status();
}

}  // namespace bascule
