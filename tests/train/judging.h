// SPDX-License-Identifier: Apache-2.0
// A split of hand-made rows, judged from hand-made batches of two.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/base/align.h"
#include "src/runtime/threads.h"
#include "src/train/judged_split.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

inline constexpr std::int64_t kBatch = 2;

class Judging {
 public:
  // pictures: of each row, by the letter that names it. tokens: masked LM, most labelled ones of a row.
  Judging(ModelHead head, const std::string& pictures, std::int64_t width, bool keeps_predictions = false,
          std::int64_t tokens = 0)
      : keeps_predictions_(keeps_predictions), width_(width), products_(GemmCache::make(1)), threads_(1, false) {
    std::string rows;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      folder_.write(std::string(1, pictures[i]) + ".jpg", "");
      rows += std::string("{\"image\": \"") + pictures[i] + ".jpg\", \"caption\": \"c" + std::to_string(i) + "\"}\n";
    }
    manifest_ = std::make_unique<Manifest>(Manifest::load(folder_.write("rows.jsonl", rows), ManifestColumns()));
    const JudgedSplit::Shape shape{
        head, manifest_->rows() + 3, kBatch, width, keeps_predictions ? manifest_->rows() : 0, tokens};
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, JudgedSplit::bytes(shape))));
    split_ = std::make_unique<JudgedSplit>(shape, memory_.get(), *products_);
    begin();
  }
  void begin() { split_->begin(manifest_->rows(), keeps_predictions_); }

  // The rows of batch `index` that are judged; selected: labelled tokens.
  void take(std::int64_t index, const std::vector<std::int64_t>& rows, const BatchOutputs& outputs,
            const std::vector<std::int32_t>& labels = {}, std::int64_t selected = 0) {
    Batch batch;
    batch.counts.samples = static_cast<std::int64_t>(rows.size());
    batch.counts.selected_rows = selected;
    batch.first_position = index * kBatch;
    batch.positions = std::min(kBatch, manifest_->rows() - batch.first_position);
    batch.rows = batch.caption_rows = rows.data();
    batch.labels = labels.data();
    take(batch, outputs);
  }
  void take(const Batch& batch, const BatchOutputs& outputs) { split_->take(batch, outputs, *manifest_); }
  // Contrastive: text and image embeddings of the batch's rows.
  void take(std::int64_t index, const std::vector<std::int64_t>& rows, float loss, const std::vector<float>& text,
            const std::vector<float>& images) {
    ASSERT_EQ(text.size(), rows.size() * static_cast<std::size_t>(width_));
    BatchOutputs outputs;
    outputs.loss = loss;
    outputs.text_embeds = text.data();
    outputs.image_embeds = outputs.cross_embeds = images.data();
    take(index, rows, outputs);
  }
  EvaluationRecord finish() {
    EvaluationRecord record;
    split_->finish(threads_, &record);
    return record;
  }
  const JudgedSplit& split() const { return *split_; }
  const Manifest& manifest() const { return *manifest_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  bool keeps_predictions_;
  std::int64_t width_;
  TemporaryFolder folder_;
  std::unique_ptr<Manifest> manifest_;
  std::unique_ptr<GemmCache> products_;
  Threads threads_;
  std::unique_ptr<std::byte, Free> memory_;
  std::unique_ptr<JudgedSplit> split_;
};

}  // namespace bascule::test
