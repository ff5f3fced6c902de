// SPDX-License-Identifier: Apache-2.0
#include "src/session/packed_batch.h"

#include "src/base/error.h"

namespace bascule {

PackedBatch::PackedBatch(const PaddedBatch& padded, const ModelInputs& inputs, bool every_row, const std::string& where)
    : pixels_(padded.pixels), label_shares_(padded.label_shares) {
  const std::int64_t vocab_size = inputs.vocabulary_size;
  const bool has_token_labels = !padded.token_labels.empty();
  const auto refuse = [&](std::int64_t sample, const std::string& what) {
    throw Error(ErrorKind::kData, where, "sample " + std::to_string(sample) + ": " + what);
  };
  for (std::int64_t s = 0; s < padded.samples; ++s) {
    text_offsets_.push_back(static_cast<std::int32_t>(token_ids_.size()));
    const std::uint64_t number = static_cast<std::uint64_t>(padded.first_sample + s);
    sample_keys_.push_back(row_key(number, 0));
    for (std::int64_t row = 0; row < padded.image_rows; ++row)
      image_row_keys_.push_back(row_key(number, static_cast<std::uint64_t>(row)));
    std::int32_t counted = 0;
    bool ended = false;
    const auto add_read = [&](std::int64_t t) {
      read_rows_.push_back(static_cast<std::int32_t>(token_ids_.size()));
      read_row_keys_.push_back(row_key(number, static_cast<std::uint64_t>(t)));
    };
    read_offsets_.push_back(static_cast<std::int32_t>(read_rows_.size()));
    for (std::int64_t t = 0; t < padded.length; ++t) {
      const std::size_t at = static_cast<std::size_t>(s * padded.length + t);
      if (padded.attention_mask[at] == 0) {
        ended = true;
        continue;
      }
      if (ended) refuse(s, "the attention mask has a hole before token " + std::to_string(t));
      const std::int64_t id = padded.input_ids[at];
      if (id < 0 || id >= vocab_size)
        refuse(s, "token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab_size));
      const std::int32_t position = inputs.positions.next(static_cast<std::int32_t>(id), &counted);
      if (position >= inputs.max_positions)
        refuse(s, "more tokens than max_position_embeddings = " + std::to_string(inputs.max_positions) + " allows");
      const std::int64_t label = has_token_labels ? padded.token_labels[at] : -100;
      if (label >= vocab_size) refuse(s, "label " + std::to_string(label) + " is outside the vocabulary");
      const bool is_selected = label >= 0 || (has_token_labels && every_row);
      if (t == 0 || is_selected) add_read(t);
      if (is_selected) {
        masked_among_read_.push_back(static_cast<std::int32_t>(read_rows_.size()) - 1);
        selected_rows_.push_back(static_cast<std::int32_t>(token_ids_.size()));
        token_labels_.push_back(label >= 0 ? static_cast<std::int32_t>(label) : -100);
      }
      text_row_keys_.push_back(row_key(number, static_cast<std::uint64_t>(t)));
      padded_row_.push_back(static_cast<std::int64_t>(at));
      token_ids_.push_back(static_cast<std::int32_t>(id));
      const std::int64_t type = padded.token_types.empty() ? 0 : padded.token_types[at];
      if (type < 0 || type >= inputs.token_types)
        refuse(s, "token type " + std::to_string(type) + " is none of the " + std::to_string(inputs.token_types));
      token_types_.push_back(static_cast<std::int32_t>(type));
      position_ids_.push_back(position);
    }
    if (padded.length > 0 && text_offsets_.back() == static_cast<std::int32_t>(token_ids_.size()))
      refuse(s, "every token is masked");
    const auto add_class = [&](const std::vector<std::int64_t>& labels, std::vector<std::int32_t>* to) {
      if (labels.empty()) return;
      const std::int64_t label = labels[static_cast<std::size_t>(s)];
      if (label < 0 || label >= inputs.classes)
        refuse(s, "label " + std::to_string(label) + " is none of the " + std::to_string(inputs.classes) + " classes");
      to->push_back(static_cast<std::int32_t>(label));
    };
    add_class(padded.labels, &labels_);
    add_class(padded.mixed_labels, &mixed_labels_);
  }
  text_offsets_.push_back(static_cast<std::int32_t>(token_ids_.size()));
  read_offsets_.push_back(static_cast<std::int32_t>(read_rows_.size()));
}

BatchCounts PackedBatch::counts(const Fields& fields) const {
  BatchCounts counts;
  counts[kSamples] = samples();
  for (const Field& field : fields) {
    const int stream = field.rows.stream;
    if (field.source == FieldSource::kTokenIds) counts[stream] = static_cast<std::int64_t>(token_ids_.size());
    if (field.source == FieldSource::kReadRows) counts[stream] = static_cast<std::int64_t>(read_rows_.size());
    if (field.source == FieldSource::kMaskedRows) counts[stream] = static_cast<std::int64_t>(selected_rows_.size());
  }
  return counts;
}

Batch PackedBatch::batch(const Fields& fields) const {
  Batch batch;
  batch.counts = counts(fields);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    switch (fields[i].source) {
      case FieldSource::kPixels: batch.fields[i] = pixels_.data(); break;
      case FieldSource::kTokenIds: batch.fields[i] = token_ids_.data(); break;
      case FieldSource::kTokenTypes: batch.fields[i] = token_types_.data(); break;
      case FieldSource::kPositionIds: batch.fields[i] = position_ids_.data(); break;
      case FieldSource::kTextOffsets: batch.fields[i] = text_offsets_.data(); break;
      case FieldSource::kTextRowKeys: batch.fields[i] = text_row_keys_.data(); break;
      case FieldSource::kSampleKeys: batch.fields[i] = sample_keys_.data(); break;
      case FieldSource::kMaskedRows: batch.fields[i] = selected_rows_.data(); break;
      case FieldSource::kReadRows: batch.fields[i] = read_rows_.data(); break;
      case FieldSource::kReadOffsets: batch.fields[i] = read_offsets_.data(); break;
      case FieldSource::kReadRowKeys: batch.fields[i] = read_row_keys_.data(); break;
      case FieldSource::kMaskedAmongRead: batch.fields[i] = masked_among_read_.data(); break;
      case FieldSource::kMaskedLabels: batch.fields[i] = token_labels_.data(); break;
      case FieldSource::kMatchLabels:
      case FieldSource::kClassLabels: batch.fields[i] = labels_.data(); break;
      case FieldSource::kMixedLabels: batch.fields[i] = mixed_labels_.data(); break;
      case FieldSource::kLabelShares: batch.fields[i] = label_shares_.data(); break;
      case FieldSource::kImageRowKeys: batch.fields[i] = image_row_keys_.data(); break;
    }
  }
  return batch;
}

}  // namespace bascule
