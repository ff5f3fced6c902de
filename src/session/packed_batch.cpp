// SPDX-License-Identifier: Apache-2.0
#include "src/session/packed_batch.h"

#include <algorithm>

#include "src/base/error.h"

namespace bascule {
namespace {

std::int32_t count_of_rows(const std::vector<std::int32_t>& rows) noexcept {
  return static_cast<std::int32_t>(rows.size());
}

}  // namespace

void PackedText::reserve(const TextRoom& room) {
  const std::size_t texts = static_cast<std::size_t>(room.texts), tokens = static_cast<std::size_t>(room.tokens);
  const std::size_t selected = static_cast<std::size_t>(room.selected);
  for (Numbers* of_tokens : {&token_ids_, &decoder_ids_, &token_types_, &position_ids_}) of_tokens->reserve(tokens);
  for (Numbers* of_texts : {&offsets_, &read_offsets_}) of_texts->reserve(texts + 1);
  for (Numbers* of_selected : {&selected_, &selected_among_read_, &labels_, &words_}) of_selected->reserve(selected);
  read_rows_.reserve(texts + selected);
  read_row_keys_.reserve(texts + selected);
  row_keys_.reserve(tokens);
}

void PackedText::clear() {
  for (Numbers* numbers : {&token_ids_, &decoder_ids_, &token_types_, &position_ids_, &offsets_, &read_rows_,
                           &read_offsets_, &selected_among_read_, &selected_, &labels_, &words_})
    numbers->clear();
  row_keys_.clear();
  read_row_keys_.clear();
  offsets_.push_back(0);
  read_offsets_.push_back(0);
}

void PackedText::begin_text(const TextShape& shape, std::uint64_t sample, int text, std::int32_t first) noexcept {
  shape_ = &shape;
  sample_ = sample;
  number_ = text;
  first_ = first;
  counted_ = 0;
}

std::int32_t PackedText::add(std::int32_t id, std::int32_t type, bool is_selected, std::int32_t label) {
  const std::int32_t row = count_of_rows(token_ids_), t = row - offsets_.back();
  const std::uint64_t key = text_row_key(sample_, number_, static_cast<std::uint64_t>(std::int64_t{first_} + t));
  const std::int32_t position = shape_->positions.next(id, &counted_);
  if (t == 0 || is_selected) {
    read_rows_.push_back(row);
    read_row_keys_.push_back(key);
  }
  if (is_selected) {
    selected_among_read_.push_back(count_of_rows(read_rows_) - 1);
    selected_.push_back(row);
    labels_.push_back(label);
    words_.push_back(t);
  }
  row_keys_.push_back(key);
  decoder_ids_.push_back(t == 0 ? shape_->start_id : token_ids_.back());
  token_ids_.push_back(id);
  token_types_.push_back(type);
  position_ids_.push_back(position);
  return position;
}

void PackedText::end_text() {
  offsets_.push_back(count_of_rows(token_ids_));
  read_offsets_.push_back(count_of_rows(read_rows_));
}

std::int64_t PackedText::rows(FieldSource source) const noexcept {
  switch (source) {
    case FieldSource::kTokenIds: return count_of_rows(token_ids_);
    case FieldSource::kReadRows: return count_of_rows(read_rows_);
    case FieldSource::kMaskedRows:
    case FieldSource::kLabelledRows: return count_of_rows(selected_);
    default: return -1;
  }
}

const void* PackedText::field(FieldSource source) const noexcept {
  switch (source) {
    case FieldSource::kTokenIds: return token_ids_.data();
    case FieldSource::kDecoderIds: return decoder_ids_.data();
    case FieldSource::kTokenTypes: return token_types_.data();
    case FieldSource::kPositionIds: return position_ids_.data();
    case FieldSource::kTextOffsets: return offsets_.data();
    case FieldSource::kTextRowKeys: return row_keys_.data();
    case FieldSource::kReadRows: return read_rows_.data();
    case FieldSource::kReadOffsets: return read_offsets_.data();
    case FieldSource::kReadRowKeys: return read_row_keys_.data();
    case FieldSource::kMaskedAmongRead: return selected_among_read_.data();
    case FieldSource::kMaskedRows:
    case FieldSource::kLabelledRows: return selected_.data();
    case FieldSource::kMaskedLabels:
    case FieldSource::kTokenLabels: return labels_.data();
    case FieldSource::kLabelledWords: return words_.data();
    default: return nullptr;
  }
}

namespace {

[[noreturn]] void refuse(const std::string& where, std::int64_t sample, const std::string& what) {
  throw Error(ErrorKind::kData, where, "sample " + std::to_string(sample) + ": " + what);
}

// The tokens of a padded text before its padding.
std::int64_t tokens_of(const PaddedText& padded, std::int64_t s, const std::string& where) {
  const auto first = padded.attention_mask.begin() + s * padded.length, end = first + padded.length;
  const auto padding = std::find(first, end, 0);
  if (const auto hole = std::find_if(padding, end, [](std::int64_t mask) { return mask != 0; }); hole != end)
    refuse(where, s, "the attention mask has a hole before token " + std::to_string(hole - first));
  if (padding == first) refuse(where, s, "every token is masked");
  return padding - first;
}

}  // namespace

PackedBatch::PackedBatch(const PaddedBatch& padded, const ModelInputs& inputs, bool every_row, const std::string& where)
    : where_(where),
      samples_(padded.samples),
      tags_(inputs.reads_words ? inputs.classes : 0),
      pixels_(padded.pixels),
      label_values_(padded.label_values),
      label_shares_(padded.label_shares) {
  for (int text = 0; text < kMaxTexts; ++text) {
    padded_lengths_[text] = padded.texts[text].length;
    if (padded_lengths_[text] > 0) texts_[text].clear();
  }
  for (std::int64_t s = 0; s < padded.samples; ++s) {
    const std::uint64_t number = static_cast<std::uint64_t>(padded.first_sample + s);
    for (std::int64_t column = 0; column < inputs.texts_in_a_row; ++column) {
      const std::int64_t row = s * inputs.texts_in_a_row + column;
      const std::int32_t first = column > 0 ? texts_[0].tokens_of_last(column) : 0;
      const std::uint64_t texts = static_cast<std::uint64_t>(inputs.texts_in_a_row);
      sample_keys_.push_back(row_key(number * texts + static_cast<std::uint64_t>(column), 0));
      if (padded.texts[0].length > 0) add_text(padded.texts[0], inputs.texts[0], 0, row, number, first, every_row);
    }
    for (std::int64_t row = 0; row < padded.image_rows; ++row)
      image_row_keys_.push_back(row_key(number, static_cast<std::uint64_t>(row)));
    for (int text = 1; text < kMaxTexts; ++text) {
      if (padded.texts[text].length > 0)
        add_text(padded.texts[text], inputs.texts[text], text, s, number, 0, every_row);
    }
    const auto add_class = [&](const std::vector<std::int64_t>& labels, std::vector<std::int32_t>* out) {
      if (labels.empty()) return;
      const std::int64_t label = labels[static_cast<std::size_t>(s)];
      if (label < 0 || label >= inputs.classes)
        refuse(where, s, "label " + std::to_string(label) + " is none of the " + count_of(inputs.classes, "class"));
      out->push_back(static_cast<std::int32_t>(label));
    };
    add_class(padded.labels, &labels_);
    add_class(padded.mixed_labels, &mixed_labels_);
  }
}

// Adds row s of the padded text, of the sample whose number in the run is `sample`; first: the number of its first
// token among the sample's.
void PackedBatch::add_text(const PaddedText& padded, const TextShape& shape, int number, std::int64_t s,
                           std::uint64_t sample, std::int32_t first, bool every_row) {
  PackedText& text = texts_[number];
  text.begin_text(shape, sample, number, first);
  const bool has_labels = !padded.token_labels.empty();
  const std::int64_t tokens = tokens_of(padded, s, where_);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::size_t at = static_cast<std::size_t>(s * padded.length + t);
    const std::int64_t id = padded.input_ids[at];
    if (id < 0 || id >= shape.vocabulary_size)
      refuse(
          where_, s,
          "token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(shape.vocabulary_size));
    const std::int64_t label = has_labels ? padded.token_labels[at] : -100;
    if (label >= (tags_ > 0 ? tags_ : shape.vocabulary_size))
      refuse(where_, s,
             "label " + std::to_string(label) +
                 (tags_ > 0 ? " is none of the " + count_of(tags_, "tag") : " is outside the vocabulary"));
    const std::int64_t type = padded.token_types.empty() ? 0 : padded.token_types[at];
    if (type < 0 || (shape.token_types > 0 && type >= shape.token_types))
      refuse(where_, s, "token type " + std::to_string(type) + " is none of the " + std::to_string(shape.token_types));
    const std::int32_t position =
        text.add(static_cast<std::int32_t>(id), static_cast<std::int32_t>(type),
                 label >= 0 || (has_labels && every_row), label >= 0 ? static_cast<std::int32_t>(label) : -100);
    if (shape.max_positions > 0 && position >= shape.max_positions)
      refuse(where_, s,
             "more tokens than max_position_embeddings = " + std::to_string(shape.max_positions) + " allows");
    padded_rows_[number].push_back(static_cast<std::int64_t>(at));
  }
  text.end_text();
}

BatchCounts PackedBatch::counts(const Fields& fields) const {
  BatchCounts counts;
  counts[kSamples] = samples();
  for (const Field& field : fields) {
    const std::int64_t rows = texts_[field.text].rows(field.source);
    if (rows >= 0) counts[field.rows.stream] = rows;
  }
  return counts;
}

Batch PackedBatch::batch(const Fields& fields) const {
  Batch batch;
  batch.counts = counts(fields);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    switch (fields[i].source) {
      case FieldSource::kPixels: batch.fields[i] = pixels_.data(); break;
      case FieldSource::kSampleKeys: batch.fields[i] = sample_keys_.data(); break;
      case FieldSource::kMatchLabels:
      case FieldSource::kClassLabels: batch.fields[i] = labels_.data(); break;
      case FieldSource::kLabelValues: batch.fields[i] = label_values_.data(); break;
      case FieldSource::kMixedLabels: batch.fields[i] = mixed_labels_.data(); break;
      case FieldSource::kLabelShares: batch.fields[i] = label_shares_.data(); break;
      case FieldSource::kImageRowKeys: batch.fields[i] = image_row_keys_.data(); break;
      default: batch.fields[i] = texts_[fields[i].text].field(fields[i].source); break;
    }
  }
  return batch;
}

}  // namespace bascule
