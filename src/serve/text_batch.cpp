// SPDX-License-Identifier: Apache-2.0
#include "src/serve/text_batch.h"

namespace bascule {
namespace {

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

TextBatch::TextBatch(const ModelInputs& inputs, const Fields& fields, const TextRoom& room, std::int32_t mask_id)
    : fields_(fields),
      shape_(inputs.texts[0]),
      mask_id_(mask_id),
      no_labels_(size_of(room.texts), 0),
      no_values_(size_of(room.texts), 0.0f) {
  texts_.reserve(room);
  sample_keys_.reserve(size_of(room.texts));
  clear();
}

BatchCounts TextBatch::bounds(const Fields& fields, const TextRoom& room, std::int64_t longest) {
  BatchCounts bounds;
  bounds[kSamples] = room.texts;
  for (const Field& field : fields) {
    if (field.text > 0) continue;
    const int stream = field.rows.stream;
    if (field.source == FieldSource::kTokenIds) {
      bounds[stream] = room.tokens;
      bounds.longest[stream] = longest;
    }
    if (field.source == FieldSource::kMaskedRows || field.source == FieldSource::kLabelledRows)
      bounds[stream] = room.selected;
    if (field.source == FieldSource::kReadRows) bounds[stream] = room.texts + room.selected;
  }
  return bounds;
}

void TextBatch::clear() noexcept {
  texts_.clear();
  sample_keys_.clear();
}

void TextBatch::add(Span<const std::int32_t> ids, std::int64_t second_begin, std::int32_t second_type) noexcept {
  const std::uint64_t sample = sample_keys_.size();
  sample_keys_.push_back(row_key(sample, 0));
  texts_.begin_text(shape_, sample, 0, 0);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const std::int32_t type = static_cast<std::int64_t>(t) >= second_begin ? second_type : 0;
    (void)texts_.add(ids[t], type, mask_id_ == kEveryToken || ids[t] == mask_id_, 0);
  }
  texts_.end_text();
}

const void* TextBatch::field(const Field& field) const noexcept {
  if (field.text > 0) return nullptr;
  switch (field.source) {
    case FieldSource::kSampleKeys: return sample_keys_.data();
    case FieldSource::kMatchLabels:
    case FieldSource::kClassLabels: return no_labels_.data();
    case FieldSource::kLabelValues: return no_values_.data();
    default: return texts_.field(field.source);
  }
}

Batch TextBatch::batch() const noexcept {
  Batch batch;
  batch.counts[kSamples] = static_cast<std::int64_t>(sample_keys_.size());
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    batch.fields[i] = field(fields_[i]);
    const std::int64_t rows = fields_[i].text > 0 ? -1 : texts_.rows(fields_[i].source);
    if (rows >= 0) batch.counts[fields_[i].rows.stream] = rows;
  }
  return batch;
}

}  // namespace bascule
