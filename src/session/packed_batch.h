// SPDX-License-Identifier: Apache-2.0
// A padded batch, as the reference takes it, packed into ours: for reference cases, and wherever a batch is made
// outside a loader. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/batch.h"
#include "src/models/model.h"
#include "src/session/packed_text.h"

namespace bascule {

// One of the texts of a batch of B samples.
struct PaddedText {
  std::int64_t length = 0;                   // padded; 0: samples have no such text
  std::vector<std::int64_t> input_ids;       // (B, length)
  std::vector<std::int64_t> attention_mask;  // (B, length), ones then zeros
  std::vector<std::int64_t> token_types;     // (B, length); empty: all 0
  // (B, length), -100: not counted; empty: tokens have none. Of a text that a decoder reads, the tokens themselves.
  std::vector<std::int64_t> token_labels;
};

struct PaddedBatch {
  std::int64_t samples = 0;                // B
  PaddedText texts[kMaxTexts];             // by number; of several texts a row (ModelInputs): B times as many rows
  std::vector<std::int64_t> labels;        // (B), classes; empty: samples have none
  std::vector<float> label_values;         // (B), where labels are values
  std::vector<std::int64_t> mixed_labels;  // (B), classes, and the share of `labels`; empty: labels are not mixed
  std::vector<float> label_shares;
  std::vector<float> pixels;  // (B, channels, height, width)
  // For dropout: the number of the first sample in the run, and the rows of a picture (0: nothing is dropped in them).
  std::int64_t first_sample = 0, image_rows = 0;
};

class PackedBatch {
 public:
  // inputs: of the model. every_row: where tokens have labels, all rows of texts are selected, masked or labelled
  // (their logits are wanted), else those with a label. Throws Error kData naming `where` for ids outside the
  // vocabulary, masks with holes, labels that are no class, texts without a token.
  PackedBatch(const PaddedBatch& padded, const ModelInputs& inputs, bool every_row, const std::string& where);

  std::int64_t samples() const { return samples_; }
  // In the streams that the model declares.
  BatchCounts counts(const Fields& fields) const;
  // With the fields that the model declares. Borrowed from this object.
  Batch batch(const Fields& fields) const;
  // For each row of a text, its row in the padded layout: sample * length + position; the same of the texts of a row.
  const std::vector<std::int64_t>& padded_row(int text) const { return padded_rows_[text]; }
  std::int64_t padded_length(int text) const { return padded_lengths_[text]; }

 private:
  void add_text(const PaddedText& padded, const TextShape& shape, int number, std::int64_t s, std::uint64_t sample,
                std::int32_t first, bool every_row);

  const std::string where_;
  const std::int64_t samples_;
  const std::int64_t tags_;  // labels of tokens are below it; 0: they are tokens
  const std::vector<float> pixels_, label_values_, label_shares_;
  PackedText texts_[kMaxTexts];
  std::vector<std::int64_t> padded_rows_[kMaxTexts];
  std::int64_t padded_lengths_[kMaxTexts] = {};
  std::vector<std::int32_t> labels_, mixed_labels_;
  std::vector<std::uint64_t> image_row_keys_, sample_keys_;
};

}  // namespace bascule
