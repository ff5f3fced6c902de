// SPDX-License-Identifier: Apache-2.0
// Evaluation of one split: the loss over its batches and the head's metrics. Contrastive: recall both ways over the
// whole split. Matching: accuracy and area under the curve. Masked LM: accuracy and perplexity. What it computed per
// row stays for prediction.
//
// The ranks of a node share the memory: each evaluates whole batches and puts what it computes in its place; then the
// nodes' parts are put together, and rank 0 makes the metrics of it, with the same bits as a run of one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/span.h"
#include "src/data/loader.h"
#include "src/distributed/group.h"
#include "src/models/bridgetower.h"
#include "src/report/progress.h"
#include "src/report/step_record.h"
#include "src/runtime/tape.h"
#include "src/train/agreement.h"
#include "src/train/retrieval.h"

namespace bascule {

// A ring slot's batch as a tape takes it.
BatchView view_of(const Batch& batch);

class Evaluation {
 public:
  struct Shape {
    ModelHead head = ModelHead::kContrastive;
    std::int64_t max_rows = 0;  // of the largest split
    std::int64_t batch = 1;     // samples of a batch, but for the last
    std::int64_t width = 0;     // of the embeddings; 0 for other heads
  };

  // memory: bytes(shape), 64-byte aligned, shared by the ranks of a node. Before the seal.
  Evaluation(const Shape& shape, const Tape& tape, const BridgeTowerOutputs& outputs, std::byte* memory,
             GemmCache& products, Group& group);
  static std::size_t bytes(const Shape& shape);

  // The whole split, rows in order, by all ranks together; the metrics are for rank 0. After the seal. `stop`: a
  // signal's number when one has come to this rank; then kStopped in all.
  Status run(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
             EvaluationRecord* record, Progress* progress) noexcept;

  // Of the split that was run last, (rows, width) each; contrastive only.
  Span<const float> text_embeds() const { return {text_, static_cast<std::size_t>(rows_ * shape_.width)}; }
  Span<const float> image_embeds() const { return {image_, static_cast<std::size_t>(rows_ * shape_.width)}; }
  Span<const float> cross_embeds() const { return {cross_, static_cast<std::size_t>(rows_ * shape_.width)}; }
  // The manifest row whose picture each of them shows: another one where a bad sample was replaced.
  Span<const std::int32_t> shown_rows() const { return {shown_, static_cast<std::size_t>(rows_)}; }

 private:
  struct BatchSums {
    double loss = 0.0, counted = 0.0, hits = 0.0;
  };
  Status run_own_batches(Stream& stream, const Manifest& manifest, Threads& threads, const volatile int* stop,
                         Progress* progress) noexcept;
  Status clear() noexcept;
  void take(const Batch& batch, const Manifest& manifest) noexcept;
  void finish(Threads& threads, EvaluationRecord* record) noexcept;

  Shape shape_;
  const Tape& tape_;
  BridgeTowerOutputs outputs_;
  Group& group_;
  Span<std::byte> kept_;       // all that batches leave behind
  BatchSums* sums_ = nullptr;  // by batch of the split
  float *text_ = nullptr, *image_ = nullptr, *cross_ = nullptr, *scores_ = nullptr;
  std::int32_t *pictures_ = nullptr, *shown_ = nullptr, *labels_ = nullptr, *order_ = nullptr;
  std::unique_ptr<Retrieval> retrieval_;
  std::int64_t rows_ = 0;
  Agreement agreement_;
};

}  // namespace bascule
