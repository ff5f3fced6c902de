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

std::size_t cut_slot(Slot* slot, const SlotBounds& bounds, std::byte* memory) {
  Cutter cutter(memory);
  cutter.cut(&slot->pixels, bounds.samples * bounds.pixels_per_sample);
  cutter.cut(&slot->token_ids, bounds.text_rows + 1);  // where a caption that is longer than planned shows
  cutter.cut(&slot->position_ids, bounds.text_rows);
  cutter.cut(&slot->text_offsets, bounds.samples + 1);
  cutter.cut(&slot->text_row_keys, bounds.text_rows);
  cutter.cut(&slot->image_row_keys, bounds.samples * bounds.image_rows);
  cutter.cut(&slot->sample_keys, bounds.samples);
  cutter.cut(&slot->selected_rows, bounds.selected_rows);
  cutter.cut(&slot->labels, bounds.labels);
  cutter.cut(&slot->rows, bounds.samples);
  cutter.cut(&slot->caption_rows, bounds.samples);
  cutter.cut(&slot->samples, bounds.samples);
  return cutter.used_bytes();
}

}  // namespace

std::size_t slot_bytes(const SlotBounds& bounds) noexcept {
  Slot unused;
  return cut_slot(&unused, bounds, nullptr);
}

Slot lay_out_slot(const SlotBounds& bounds, Span<std::byte> memory) noexcept {
  BASCULE_CHECK(memory.size() >= slot_bytes(bounds));
  Slot slot;
  slot.bounds = bounds;
  cut_slot(&slot, bounds, memory.data());
  return slot;
}

}  // namespace bascule
