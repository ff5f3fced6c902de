// SPDX-License-Identifier: Apache-2.0
// A padded batch, as the reference takes it, packed into ours: for reference cases, and wherever a batch is made
// outside a loader. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/batch.h"
#include "src/models/model.h"

namespace bascule {

struct PaddedBatch {
  std::int64_t samples = 0, length = 0;      // B and the padded length; length 0: there are no texts
  std::vector<std::int64_t> input_ids;       // (B, length)
  std::vector<std::int64_t> attention_mask;  // (B, length), ones then zeros
  std::vector<std::int64_t> token_types;     // (B, length); empty: all 0
  std::vector<std::int64_t> token_labels;    // (B, length), -100: not counted; empty: tokens have none
  std::vector<std::int64_t> labels;          // (B), classes; empty: samples have none
  std::vector<std::int64_t> mixed_labels;    // (B), classes, and the share of `labels`; empty: labels are not mixed
  std::vector<float> label_shares;
  std::vector<float> pixels;  // (B, channels, height, width)
  // For dropout: the number of the first sample in the run, and the rows of a picture (0: nothing is dropped in them).
  std::int64_t first_sample = 0, image_rows = 0;
};

class PackedBatch {
 public:
  // inputs: of the model. every_row: where tokens have labels, all text rows are selected (their logits are wanted),
  // else those with a label.
  // Throws Error kData naming `where` for ids outside the vocabulary, masks with holes, labels that are no class,
  // captions without a token.
  PackedBatch(const PaddedBatch& padded, const ModelInputs& inputs, bool every_row, const std::string& where);

  std::int64_t samples() const { return static_cast<std::int64_t>(sample_keys_.size()); }
  // In the streams that the model declares.
  BatchCounts counts(const Fields& fields) const;
  // With the fields that the model declares. Borrowed from this object.
  Batch batch(const Fields& fields) const;
  // For each text row, its row in the padded layout: sample * length + position.
  const std::vector<std::int64_t>& padded_row() const { return padded_row_; }

 private:
  const std::vector<float> pixels_, label_shares_;
  std::vector<std::int32_t> token_ids_, token_types_, position_ids_, text_offsets_, selected_rows_, read_rows_,
      read_offsets_, masked_among_read_, token_labels_, labels_, mixed_labels_;
  std::vector<std::uint64_t> text_row_keys_, image_row_keys_, read_row_keys_, sample_keys_;
  std::vector<std::int64_t> padded_row_;
};

}  // namespace bascule
