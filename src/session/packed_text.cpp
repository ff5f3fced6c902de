// SPDX-License-Identifier: Apache-2.0
#include "src/session/packed_text.h"

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
  const std::uint64_t key = text_row_key(sample_, number_, static_cast<std::uint64_t>(first_ + t));
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

}  // namespace bascule
