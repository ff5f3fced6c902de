// SPDX-License-Identifier: Apache-2.0
#include "src/train/judged_split.h"

#include <algorithm>
#include <cmath>

#include "src/base/align.h"
#include "src/base/check.h"

namespace bascule {
namespace {

// Where each part of the memory begins.
struct Parts {
  std::size_t sums, text, image, cross, scores, pictures, judged, labels;
  std::size_t caption_rows, token_counts, tokens;  // predictions
  std::size_t order, retrieval, all;
};

Parts parts_of(const JudgedSplit::Shape& shape) {
  const std::size_t rows = static_cast<std::size_t>(align_up<std::int64_t>(shape.max_rows, 16));
  const std::size_t embeds = rows * static_cast<std::size_t>(shape.width) * sizeof(float);
  const bool contrastive = shape.head == ModelHead::kContrastive,
             matching = shape.head == ModelHead::kImageTextMatching, masked = shape.head == ModelHead::kMaskedLm;
  const std::size_t predicted = static_cast<std::size_t>(shape.predicted_rows);
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
  parts.judged = take(true, rows * sizeof(std::int32_t));
  parts.labels = take(matching, rows * sizeof(std::int32_t));
  parts.caption_rows = take(matching, predicted * sizeof(std::int32_t));
  parts.token_counts = take(masked, predicted * sizeof(std::int32_t));
  parts.tokens = take(masked, predicted * static_cast<std::size_t>(shape.tokens) * sizeof(TokenPrediction));
  parts.order = take(matching, rows * sizeof(std::int32_t));
  parts.retrieval = take(contrastive, Retrieval::bytes(shape.max_rows));
  parts.all = at;
  return parts;
}

// In judged_, for a row that was left out.
constexpr std::int32_t kLeftOut = -1;

}  // namespace

std::size_t JudgedSplit::bytes(const Shape& shape) { return parts_of(shape).all; }

JudgedSplit::JudgedSplit(const Shape& shape, std::byte* memory, GemmCache& products) : shape_(shape) {
  static_assert(sizeof(BatchSums) == 3 * sizeof(double));
  const Parts parts = parts_of(shape);
  taken_ = {memory, parts.order};
  without_predictions_ = parts.caption_rows;
  const auto floats = [&](std::size_t at) { return static_cast<float*>(static_cast<void*>(memory + at)); };
  const auto integers = [&](std::size_t at) { return static_cast<std::int32_t*>(static_cast<void*>(memory + at)); };
  sums_ = static_cast<BatchSums*>(static_cast<void*>(memory + parts.sums));
  text_ = floats(parts.text);
  image_ = floats(parts.image);
  cross_ = floats(parts.cross);
  scores_ = floats(parts.scores);
  pictures_ = integers(parts.pictures);
  judged_ = integers(parts.judged);
  labels_ = integers(parts.labels);
  caption_rows_ = integers(parts.caption_rows);
  token_counts_ = integers(parts.token_counts);
  tokens_ = static_cast<TokenPrediction*>(static_cast<void*>(memory + parts.tokens));
  order_ = integers(parts.order);
  if (shape.head == ModelHead::kContrastive)
    retrieval_ = std::make_unique<Retrieval>(shape.max_rows, shape.width, memory + parts.retrieval, products);
}

void JudgedSplit::begin(std::int64_t rows, bool keeps_predictions) noexcept {
  BASCULE_CHECK(!keeps_predictions || rows <= shape_.predicted_rows);
  rows_ = rows;
  keeps_predictions_ = keeps_predictions;
}

// Everything of a row goes to the row's place.
void JudgedSplit::take(const Batch& batch, const BatchOutputs& outputs, const Manifest& manifest) noexcept {
  const std::int64_t samples = batch.counts.samples, first = batch.first_position;
  std::fill_n(judged_ + first, batch.positions, kLeftOut);
  for (std::int64_t s = 0; s < samples; ++s) judged_[batch.rows[s]] = static_cast<std::int32_t>(batch.rows[s]);
  if (samples == 0) {
    sums_[first / shape_.batch] = {};
    return;
  }
  const double weight = static_cast<double>(shape_.head == ModelHead::kMaskedLm ? batch.counts.selected_rows : samples);
  BatchSums& sums = sums_[first / shape_.batch];
  sums = {static_cast<double>(outputs.loss) * weight, weight, 0.0};
  if (shape_.head == ModelHead::kContrastive) {
    const std::int64_t width = shape_.width;
    for (std::int64_t s = 0; s < samples; ++s) {
      const std::int64_t row = batch.rows[s];
      std::copy_n(outputs.text_embeds + s * width, width, text_ + row * width);
      std::copy_n(outputs.image_embeds + s * width, width, image_ + row * width);
      std::copy_n(outputs.cross_embeds + s * width, width, cross_ + row * width);
      pictures_[row] = static_cast<std::int32_t>(manifest.image_id(row));
    }
    return;
  }
  const std::int64_t judged = shape_.head == ModelHead::kMaskedLm ? batch.counts.selected_rows : samples;
  for (std::int64_t i = 0; i < judged; ++i) sums.hits += outputs.hits[i];
  if (keeps_predictions_) take_predictions(batch, outputs);
  if (shape_.head != ModelHead::kImageTextMatching) return;
  for (std::int64_t s = 0; s < samples; ++s) {
    scores_[batch.rows[s]] = outputs.logits[2 * s + 1] - outputs.logits[2 * s];
    labels_[batch.rows[s]] = batch.labels[s];
  }
}

void JudgedSplit::take_predictions(const Batch& batch, const BatchOutputs& outputs) noexcept {
  std::int64_t token = 0;  // of the batch's labelled ones
  for (std::int64_t s = 0; s < batch.counts.samples; ++s) {
    const std::int64_t row = batch.rows[s];
    if (shape_.head == ModelHead::kImageTextMatching) {
      caption_rows_[row] = static_cast<std::int32_t>(batch.caption_rows[s]);
      continue;
    }
    std::int32_t count = 0;
    for (; token < batch.counts.selected_rows && batch.selected_rows[token] < batch.text_offsets[s + 1]; ++token) {
      BASCULE_CHECK(count < shape_.tokens);
      tokens_[row * shape_.tokens + count++] = {batch.selected_rows[token] - batch.text_offsets[s], batch.labels[token],
                                                outputs.predicted[token], outputs.probabilities[token]};
    }
    token_counts_[row] = count;
  }
}

// The rows judged move together, over those left out; predictions stay at their rows.
void JudgedSplit::close_gaps() noexcept {
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (judged_[row] == kLeftOut) continue;
    if (kept != row) {
      judged_[kept] = judged_[row];
      if (shape_.head == ModelHead::kContrastive) {
        for (float* const embeds : {text_, image_, cross_})
          std::copy_n(embeds + row * shape_.width, shape_.width, embeds + kept * shape_.width);
        pictures_[kept] = pictures_[row];
      } else if (shape_.head == ModelHead::kImageTextMatching) {
        scores_[kept] = scores_[row];
        labels_[kept] = labels_[row];
      }
    }
    ++kept;
  }
  rows_ = kept;
}

void JudgedSplit::finish(Threads& threads, EvaluationRecord* record) noexcept {
  const std::int64_t batches = divide_up(rows_, shape_.batch);
  close_gaps();
  record->samples = rows_;
  if (rows_ == 0) return;
  BatchSums all;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    all.loss += sums_[batch].loss;
    all.counted += sums_[batch].counted;
    all.hits += sums_[batch].hits;
  }
  record->loss = all.counted > 0.0 ? all.loss / all.counted : 0.0;
  if (shape_.head == ModelHead::kContrastive) {
    const RecallBothWays recall = retrieval_->measure(threads, text_, image_, pictures_, rows_);
    const Recall &text = recall.text_to_image, &image = recall.image_to_text;
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

}  // namespace bascule
