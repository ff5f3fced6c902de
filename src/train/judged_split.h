// SPDX-License-Identifier: Apache-2.0
// What an evaluation computed of a split, row by row, and the figures that are made of it: the loss over its batches
// and the head's metrics. Contrastive: recall both ways (retrieval.h defines it). Matching: accuracy and area under the
// curve. Masked LM: accuracy and perplexity. It knows no tape and no stream.
//
// Rows that were left out for a bad picture are in no figure: loss and metrics are of the rows judged, each batch's
// loss weighted by its samples (masked LM: by its labelled tokens).
//
//   begin(rows)
//   take(batch, outputs, manifest)           every batch once, in any order, by any rank: its places are its own
//   finish(threads, &record)                 once all are taken; the rows judged are then together, in order
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/loader/batch.h"
#include "src/models/bridgetower.h"
#include "src/report/step_record.h"
#include "src/train/retrieval.h"

namespace bascule {

// What a replay left for the samples of a batch; null for what the head has not.
struct BatchOutputs {
  float loss = 0.0f;
  const float *text_embeds = nullptr, *image_embeds = nullptr, *cross_embeds = nullptr;  // (samples, width)
  const float* logits = nullptr;                                                         // matching: (samples, 2)
  const std::int32_t* hits = nullptr;  // matching: (samples); masked LM: (labelled tokens); 1 where it was right
  // Masked LM whose predictions are kept: (labelled tokens)
  const std::int32_t* predicted = nullptr;
  const float* probabilities = nullptr;
};

// What masked LM makes of one labelled token.
struct TokenPrediction {
  std::int32_t position = 0;  // among the caption's tokens, <s> at 0
  std::int32_t expected = 0, predicted = 0;
  float probability = 0.0f;  // of the expected one
};

class JudgedSplit {
 public:
  struct Shape {
    ModelHead head = ModelHead::kContrastive;
    std::int64_t max_rows = 0;  // of the largest split
    std::int64_t batch = 1;     // rows of a batch, but for the last
    std::int64_t width = 0;     // of the embeddings; 0 for other heads
    // Of the split whose predictions are kept, which can be one of many; matching and masked LM only.
    std::int64_t predicted_rows = 0;
    std::int64_t tokens = 0;  // masked LM: most labelled tokens of one row
  };

  // memory: bytes(shape), 64-byte aligned. Before the seal.
  JudgedSplit(const Shape& shape, std::byte* memory, GemmCache& products);
  static std::size_t bytes(const Shape& shape);
  // The part of the memory that take() writes: what ranks put together before finish().
  Span<std::byte> taken() const { return taken_.first(keeps_predictions_ ? taken_.size() : without_predictions_); }

  // After the seal, as below. batch.rows are those of a stream in the order of the rows.
  void begin(std::int64_t rows, bool keeps_predictions = false) noexcept;
  void take(const Batch& batch, const BatchOutputs& outputs, const Manifest& manifest) noexcept;
  // Fills in samples, loss and metrics. record->samples 0: every row was left out, and there is nothing else.
  void finish(Threads& threads, EvaluationRecord* record) noexcept;

  // After finish(): the rows judged, (rows, width) each; contrastive only.
  Span<const float> text_embeds() const { return {text_, static_cast<std::size_t>(rows_ * shape_.width)}; }
  Span<const float> image_embeds() const { return {image_, static_cast<std::size_t>(rows_ * shape_.width)}; }
  Span<const float> cross_embeds() const { return {cross_, static_cast<std::size_t>(rows_ * shape_.width)}; }
  // The manifest row that each of them is, ascending; every head.
  Span<const std::int32_t> rows() const { return {judged_, static_cast<std::size_t>(rows_)}; }
  // Matching, by place among the rows judged: the logit of a match less that of none, and the label.
  Span<const float> scores() const { return {scores_, static_cast<std::size_t>(rows_)}; }
  Span<const std::int32_t> labels() const { return {labels_, static_cast<std::size_t>(rows_)}; }
  // Where predictions were kept, of a manifest row that was judged. Matching: the row of its caption. Masked LM: its
  // labelled tokens in order.
  std::int64_t caption_row(std::int64_t row) const { return caption_rows_[row]; }
  Span<const TokenPrediction> tokens(std::int64_t row) const {
    return {tokens_ + row * shape_.tokens, static_cast<std::size_t>(token_counts_[row])};
  }

 private:
  struct BatchSums {
    double loss = 0.0, counted = 0.0, hits = 0.0;
  };
  void take_predictions(const Batch& batch, const BatchOutputs& outputs) noexcept;
  void close_gaps() noexcept;

  Shape shape_;
  Span<std::byte> taken_;
  std::size_t without_predictions_ = 0;  // bytes of taken_ before those of the predictions
  bool keeps_predictions_ = false;
  BatchSums* sums_ = nullptr;  // by batch of the split
  float *text_ = nullptr, *image_ = nullptr, *cross_ = nullptr, *scores_ = nullptr;
  std::int32_t *pictures_ = nullptr, *judged_ = nullptr, *labels_ = nullptr, *order_ = nullptr;
  std::int32_t *caption_rows_ = nullptr, *token_counts_ = nullptr;
  TokenPrediction* tokens_ = nullptr;
  std::unique_ptr<Retrieval> retrieval_;
  std::int64_t rows_ = 0;
};

}  // namespace bascule
