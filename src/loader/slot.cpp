// SPDX-License-Identifier: Apache-2.0
#include "src/loader/slot.h"

#include <new>

#include "src/base/align.h"
#include "src/base/check.h"

namespace bascule {
namespace {

// Hands out arrays one after another, each at a cache line of its own; without memory it only counts.
class Cutter {
 public:
  explicit Cutter(std::byte* memory) : memory_(memory) {}

  template <typename T>
  void cut(T** array, std::int64_t count) {
    if (memory_ != nullptr && count > 0) *array = new (memory_ + used_) T[static_cast<std::size_t>(count)];
    used_ += align_up(static_cast<std::size_t>(count) * sizeof(T), kCacheLine);
  }
  std::size_t used_bytes() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

std::size_t cut_slot(Slot* slot, const SlotShape& shape, std::byte* memory) {
  Cutter cutter(memory);
  const Fields& fields = *shape.fields;
  BASCULE_CHECK(fields.size() <= kMaxFields);
  const auto declares = [&](FieldSource source) { return field_from(fields, source) >= 0; };
  BASCULE_CHECK(declares(FieldSource::kMaskedRows) == declares(FieldSource::kMaskedLabels));
  BASCULE_CHECK(declares(FieldSource::kMixedLabels) == declares(FieldSource::kLabelShares));
  BASCULE_CHECK(declares(FieldSource::kTokenIds) ||
                !(declares(FieldSource::kMaskedRows) || declares(FieldSource::kMatchLabels)));
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    BASCULE_CHECK(field_from(fields, field.source) == static_cast<int>(i));  // one array a source
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
        cut(&slot->token_ids, 1);  // where a caption that is longer than planned shows
        slot->token_stream = field.rows.stream;
        break;
      case FieldSource::kTokenTypes: cut(&slot->token_types); break;
      case FieldSource::kPositionIds: cut(&slot->position_ids); break;
      case FieldSource::kTextOffsets: cut(&slot->text_offsets); break;
      case FieldSource::kTextRowKeys: cut(&slot->text_row_keys); break;
      case FieldSource::kImageRowKeys:
        cut(&slot->image_row_keys);
        slot->image_rows = field.rows.per_row;
        break;
      case FieldSource::kSampleKeys: cut(&slot->sample_keys); break;
      case FieldSource::kMaskedRows:
        cut(&slot->masked_rows);
        slot->masked_stream = field.rows.stream;
        break;
      case FieldSource::kMaskedLabels: cut(&slot->masked_labels); break;
      case FieldSource::kReadRows:
        cut(&slot->read_rows);
        slot->read_stream = field.rows.stream;
        break;
      case FieldSource::kReadOffsets: cut(&slot->read_offsets); break;
      case FieldSource::kReadRowKeys: cut(&slot->read_row_keys); break;
      case FieldSource::kMaskedAmongRead: cut(&slot->masked_among_read); break;
      case FieldSource::kMatchLabels: cut(&slot->match_labels); break;
      case FieldSource::kClassLabels: cut(&slot->class_labels); break;
      case FieldSource::kMixedLabels: cut(&slot->mixed_labels); break;
      case FieldSource::kLabelShares: cut(&slot->label_shares); break;
    }
  }
  cutter.cut(&slot->rows, shape.bounds.samples());
  cutter.cut(&slot->caption_rows, shape.bounds.samples());
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
