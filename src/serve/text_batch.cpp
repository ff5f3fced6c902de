// SPDX-License-Identifier: Apache-2.0
#include "src/serve/text_batch.h"

#include <algorithm>

namespace bascule {
namespace {

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }
std::int32_t count_of_rows(const std::vector<std::int32_t>& rows) noexcept {
  return static_cast<std::int32_t>(rows.size());
}

}  // namespace

TextBatch::TextBatch(const ModelInputs& inputs, const Fields& fields, const TextRoom& room, std::int32_t mask_id)
    : fields_(fields),
      shape_(inputs.texts[0]),
      mask_id_(mask_id),
      no_labels_(size_of(std::max(room.texts, room.selected)), 0),
      no_values_(size_of(room.texts), 0.0f) {
  for (Numbers* of_tokens : {&ids_, &types_, &positions_}) of_tokens->reserve(size_of(room.tokens));
  for (Numbers* of_texts : {&offsets_, &read_offsets_}) of_texts->reserve(size_of(room.texts) + 1);
  for (Numbers* of_selected : {&selected_, &selected_among_read_}) of_selected->reserve(size_of(room.selected));
  read_.reserve(size_of(room.texts + room.selected));
  read_keys_.reserve(size_of(room.texts + room.selected));
  row_keys_.reserve(size_of(room.tokens));
  sample_keys_.reserve(size_of(room.texts));
}

BatchCounts TextBatch::bounds(const Fields& fields, const TextRoom& room, std::int64_t longest) {
  BatchCounts bounds;
  bounds[kSamples] = room.texts;
  for (const Field& field : fields) {
    const int stream = field.rows.stream;
    if (field.source == FieldSource::kTokenIds) {
      bounds[stream] = room.tokens;
      bounds.longest[stream] = longest;
    }
    if (field.source == FieldSource::kMaskedRows) bounds[stream] = room.selected;
    if (field.source == FieldSource::kReadRows) bounds[stream] = room.texts + room.selected;
  }
  return bounds;
}

std::size_t TextBatch::bytes(const TextRoom& room) {
  const std::size_t texts = size_of(room.texts), tokens = size_of(room.tokens), selected = size_of(room.selected);
  return tokens * (3 * sizeof(std::int32_t) + sizeof(std::uint64_t)) +
         texts * (5 * sizeof(std::int32_t) + 2 * sizeof(std::uint64_t)) +
         selected * (4 * sizeof(std::int32_t) + sizeof(std::uint64_t));
}

void TextBatch::clear() noexcept {
  for (Numbers* numbers :
       {&ids_, &types_, &positions_, &offsets_, &selected_, &read_, &read_offsets_, &selected_among_read_})
    numbers->clear();
  row_keys_.clear();
  read_keys_.clear();
  sample_keys_.clear();
  offsets_.push_back(0);
  read_offsets_.push_back(0);
}

void TextBatch::add(Span<const std::int32_t> ids, std::int64_t second_begin, std::int32_t second_type) noexcept {
  const std::uint64_t sample = sample_keys_.size();
  sample_keys_.push_back(row_key(sample, 0));
  std::int32_t counted = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const std::uint64_t key = text_row_key(sample, 0, t);
    const bool is_selected = ids[t] == mask_id_;
    if (t == 0 || is_selected) {
      if (is_selected) selected_among_read_.push_back(count_of_rows(read_));
      read_.push_back(count_of_rows(ids_));
      read_keys_.push_back(key);
    }
    if (is_selected) selected_.push_back(count_of_rows(ids_));
    ids_.push_back(ids[t]);
    types_.push_back(static_cast<std::int64_t>(t) >= second_begin ? second_type : 0);
    positions_.push_back(shape_.positions.next(ids[t], &counted));
    row_keys_.push_back(key);
  }
  offsets_.push_back(count_of_rows(ids_));
  read_offsets_.push_back(count_of_rows(read_));
}

const void* TextBatch::field(FieldSource source) const noexcept {
  switch (source) {
    case FieldSource::kTokenIds: return ids_.data();
    case FieldSource::kTokenTypes: return types_.data();
    case FieldSource::kPositionIds: return positions_.data();
    case FieldSource::kTextOffsets: return offsets_.data();
    case FieldSource::kTextRowKeys: return row_keys_.data();
    case FieldSource::kSampleKeys: return sample_keys_.data();
    case FieldSource::kMaskedRows: return selected_.data();
    case FieldSource::kReadRows: return read_.data();
    case FieldSource::kReadOffsets: return read_offsets_.data();
    case FieldSource::kReadRowKeys: return read_keys_.data();
    case FieldSource::kMaskedAmongRead: return selected_among_read_.data();
    case FieldSource::kMaskedLabels:
    case FieldSource::kMatchLabels:
    case FieldSource::kClassLabels: return no_labels_.data();
    case FieldSource::kLabelValues: return no_values_.data();
    default: return nullptr;
  }
}

Batch TextBatch::batch() const noexcept {
  Batch batch;
  batch.counts[kSamples] = static_cast<std::int64_t>(sample_keys_.size());
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const int stream = fields_[i].rows.stream;
    batch.fields[i] = field(fields_[i].source);
    if (fields_[i].source == FieldSource::kTokenIds) batch.counts[stream] = count_of_rows(ids_);
    if (fields_[i].source == FieldSource::kMaskedRows) batch.counts[stream] = count_of_rows(selected_);
    if (fields_[i].source == FieldSource::kReadRows) batch.counts[stream] = count_of_rows(read_);
  }
  return batch;
}

}  // namespace bascule
