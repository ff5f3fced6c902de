// SPDX-License-Identifier: Apache-2.0
// Batches as a session takes them, packed of texts and of padded batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/batch.h"
#include "src/models/model.h"

namespace bascule {

// Texts packed end to end into the fields of a batch, token by token: the only place, beside the loader, that knows
// what these fields hold.

// What a batch has room for: texts, their tokens together, and the tokens that the model is asked about.
struct TextRoom {
  std::int64_t texts = 0, tokens = 0, selected = 0;
};

class PackedText {
 public:
  // Texts within the room allocate nothing then.
  void reserve(const TextRoom& room);
  // Before the first text, too.
  void clear();

  // Of the sample with this number in the run, its text of number `text`; first: the number of the text's first token
  // among the sample's.
  void begin_text(const TextShape& shape, std::uint64_t sample, int text, std::int32_t first) noexcept;
  // Whether it is selected: masked, or with a label, which is -100 where there is none. Returns its position.
  std::int32_t add(std::int32_t id, std::int32_t type, bool is_selected, std::int32_t label);
  void end_text();

  // Tokens of the last texts together.
  std::int32_t tokens_of_last(std::int64_t texts) const noexcept {
    return offsets_.back() - offsets_[offsets_.size() - 1 - static_cast<std::size_t>(texts)];
  }
  // Rows of the field's stream; -1: it is of no text.
  std::int64_t rows(FieldSource source) const noexcept;
  // Null: it is of no text.
  const void* field(FieldSource source) const noexcept;

 private:
  using Numbers = std::vector<std::int32_t>;

  Numbers token_ids_, decoder_ids_, token_types_, position_ids_, offsets_;
  Numbers read_rows_, read_offsets_, selected_among_read_;
  Numbers selected_, labels_, words_;  // words: each token counts as one
  std::vector<std::uint64_t> row_keys_, read_row_keys_;
  // Of the text that grows.
  const TextShape* shape_ = nullptr;
  std::uint64_t sample_ = 0;
  int number_ = 0;
  std::int32_t first_ = 0, counted_ = 0;
};

// A padded batch, as the reference takes it, packed into ours: for reference cases, and wherever a batch is made
// outside a loader. Before the seal.

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
