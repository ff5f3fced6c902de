// SPDX-License-Identifier: Apache-2.0
#include "src/loader/label_count.h"

#include "src/base/align.h"
#include "src/base/check.h"

namespace bascule {
namespace {

std::size_t id_bytes(std::int64_t longest) noexcept {
  return align_up(static_cast<std::size_t>(longest) * sizeof(std::int32_t), kCacheLine);
}

}  // namespace

std::size_t LabelCount::bytes(std::size_t worker_scratch, std::int64_t longest_text) noexcept {
  return id_bytes(longest_text) + worker_scratch;
}

LabelCount::LabelCount(Span<std::byte> memory, std::int64_t longest_text) noexcept
    : ids_(static_cast<std::int32_t*>(static_cast<void*>(memory.data())), static_cast<std::size_t>(longest_text)),
      scratch_(memory.subspan(id_bytes(longest_text), memory.size() - id_bytes(longest_text)), longest_text) {}

std::int64_t LabelCount::of(const Manifest& manifest, const SampleSettings& settings, const BatchOrder& order,
                            std::int64_t first, std::int64_t end) noexcept {
  const TextSettings& text = settings.texts[0];
  BASCULE_CHECK(text.masks_tokens && !settings.texts[1].masks_tokens && !settings.exchanges_captions);
  std::int64_t counted = 0;
  for (std::int64_t number = first; number < end; ++number) {
    const BatchPlace place = order.place(number);
    const EpochOrder rows = order.epoch_order(place.epoch);
    for (std::int64_t b = 0; b < place.count; ++b) {
      const std::int64_t row = order.row(rows, (place.first_position + b) % order.rows());
      const Span<std::int32_t> ids = tokens_of(manifest, text, row, ids_, scratch_);
      counted += mask_tokens(ids, scratch_.labels.first(ids.size()), text.masking, place.epoch, row);
    }
  }
  return counted;
}

}  // namespace bascule
