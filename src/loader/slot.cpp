// SPDX-License-Identifier: Apache-2.0
#include "src/loader/slot.h"

#include "src/base/check.h"
#include "src/base/span.h"

namespace bascule {
namespace {

// Fields that the model declares together or not at all, and a stream for each list of rows.
void check_together(const Fields& fields) {
  const auto declares = [&](FieldSource source, int text = 0) { return field_from(fields, source, text) >= 0; };
  BASCULE_CHECK(declares(FieldSource::kMixedLabels) == declares(FieldSource::kLabelShares));
  BASCULE_CHECK(declares(FieldSource::kTokenIds) || !declares(FieldSource::kMatchLabels));
  for (int text = 0; text < kMaxTexts; ++text) {
    const bool masks = declares(FieldSource::kMaskedRows, text);
    BASCULE_CHECK(masks == declares(FieldSource::kMaskedLabels, text));
    BASCULE_CHECK(declares(FieldSource::kTokenIds, text) || !masks);
    const bool labels = declares(FieldSource::kLabelledRows, text);
    BASCULE_CHECK(labels == declares(FieldSource::kTokenLabels, text));
    BASCULE_CHECK(labels || !declares(FieldSource::kLabelledWords, text));
    BASCULE_CHECK(declares(FieldSource::kTokenIds, text) || !(labels || declares(FieldSource::kDecoderIds, text)));
  }
  bool is_counted[kMaxStreams] = {};
  for (const Field& field : fields) {
    const bool counts = field.source == FieldSource::kTokenIds || field.source == FieldSource::kMaskedRows ||
                        field.source == FieldSource::kReadRows || field.source == FieldSource::kLabelledRows;
    if (!counts) continue;
    BASCULE_CHECK(field.rows.stream >= kFirstModelStream && !is_counted[field.rows.stream]);  // each text its own
    is_counted[field.rows.stream] = true;
  }
}

std::size_t cut_slot(Slot* slot, const SlotShape& shape, std::byte* memory) {
  ArrayCutter cutter(memory);
  const Fields& fields = *shape.fields;
  BASCULE_CHECK(fields.size() <= kMaxFields);
  check_together(fields);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    BASCULE_CHECK(field.text < kMaxTexts && (field.text == 0 || is_of_text(field.source)));
    BASCULE_CHECK(field_from(fields, field.source, field.text) == static_cast<int>(i));  // one array a source and text
    TextSlot& text = slot->texts[field.text];
    const std::int64_t elements = field.elements(shape.bounds);
    const auto cut = [&](auto** array, std::int64_t spare = 0) {
      cutter.cut(array, elements + spare);
      slot->fields[i] = *array;
    };
    switch (field.source) {
      case FieldSource::kPixels:
        cut(&slot->pixels);
        slot->pixels_per_sample = field.cols;
        break;
      case FieldSource::kTokenIds:
        cut(&text.token_ids, 1);  // where a text that is longer than planned shows
        text.token_stream = field.rows.stream;
        break;
      case FieldSource::kTokenTypes: cut(&text.token_types); break;
      case FieldSource::kPositionIds: cut(&text.position_ids); break;
      case FieldSource::kTextOffsets: cut(&text.offsets); break;
      case FieldSource::kTextRowKeys: cut(&text.row_keys); break;
      case FieldSource::kImageRowKeys:
        cut(&slot->image_row_keys);
        slot->image_rows = field.rows.per_row;
        break;
      case FieldSource::kSampleKeys:
        cut(&slot->sample_keys);
        slot->keys_of_sample = field.rows.per_row;
        break;
      case FieldSource::kMaskedRows:
        cut(&text.masked_rows);
        text.masked_stream = field.rows.stream;
        break;
      case FieldSource::kMaskedLabels: cut(&text.masked_labels); break;
      case FieldSource::kReadRows:
        cut(&text.read_rows);
        text.read_stream = field.rows.stream;
        break;
      case FieldSource::kReadOffsets: cut(&text.read_offsets); break;
      case FieldSource::kReadRowKeys: cut(&text.read_row_keys); break;
      case FieldSource::kMaskedAmongRead: cut(&text.masked_among_read); break;
      case FieldSource::kDecoderIds: cut(&text.decoder_ids); break;
      case FieldSource::kLabelledRows:
        cut(&text.labelled_rows);
        text.labelled_stream = field.rows.stream;
        break;
      case FieldSource::kTokenLabels: cut(&text.token_labels); break;
      case FieldSource::kLabelledWords: cut(&text.labelled_words); break;
      case FieldSource::kMatchLabels: cut(&slot->match_labels); break;
      case FieldSource::kClassLabels: cut(&slot->class_labels); break;
      case FieldSource::kLabelValues: cut(&slot->label_values); break;
      case FieldSource::kMixedLabels: cut(&slot->mixed_labels); break;
      case FieldSource::kLabelShares: cut(&slot->label_shares); break;
      case FieldSource::kGenerator: BASCULE_CHECK(false); break;  // no loader fills it
    }
  }
  cutter.cut(&slot->rows, shape.bounds.samples());
  cutter.cut(&slot->rows_of_texts, shape.bounds.samples());
  cutter.cut(&slot->samples, shape.bounds.samples());
  return cutter.used_bytes();
}

}  // namespace

std::size_t slot_bytes(const SlotShape& shape) noexcept {
  Slot unused;
  return cut_slot(&unused, shape, nullptr);
}

Slot lay_out_slot(const SlotShape& shape, Span<std::byte> memory) noexcept {
  BASCULE_CHECK(memory.size() >= slot_bytes(shape));
  Slot slot;
  slot.bounds = shape.bounds;
  cut_slot(&slot, shape, memory.data());
  return slot;
}

}  // namespace bascule
