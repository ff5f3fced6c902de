// SPDX-License-Identifier: Apache-2.0
#include "src/loader/sample.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"

namespace bascule {
namespace {

std::size_t label_bytes(std::int64_t longest) noexcept {
  return align_up(static_cast<std::size_t>(longest) * sizeof(std::int32_t), kCacheLine);
}

void write_positions(std::int32_t* positions, Span<const std::int32_t> ids, PositionRule rule) noexcept {
  std::int32_t counted = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) positions[i] = rule.next(ids[i], &counted);
}

Status first_failure(const Slot& slot) noexcept {
  for (std::int64_t b = 0; b < slot.place.count; ++b) {
    if (!slot.samples[b].status.ok()) return slot.samples[b].status;
  }
  return ok_status();
}

// The caption that goes with the picture, and whether it belongs to it.
MatchingSample caption_for(const Manifest& manifest, const TextSettings& settings, std::int64_t epoch,
                           std::int64_t row) noexcept {
  if (!settings.exchanges_captions) return MatchingSample{row, 1};
  if (manifest.has_labels()) return MatchingSample{row, manifest.row(row).label};
  return matching_sample(manifest, settings.negatives, epoch, row);
}

// Masks the sample's tokens and appends those selected to the batch's list.
void mask_sample(Slot* slot, const TextSettings& settings, Span<std::int32_t> ids, std::int64_t first_row,
                 std::int64_t row, Span<std::int32_t> labels) noexcept {
  mask_tokens(ids, labels, settings.masking, slot->place.epoch, row);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (labels[i] == kUnlabelled) continue;
    const std::int64_t masked = slot->batch.counts[slot->masked_stream]++;
    BASCULE_CHECK(masked < slot->bounds[slot->masked_stream]);
    slot->masked_rows[masked] = static_cast<std::int32_t>(first_row) + static_cast<std::int32_t>(i);
    slot->masked_labels[masked] = labels[i];
  }
}

// Lists the rows of the sample, from first_row on, that a head reads. masked: the batch's masked tokens before it.
void list_read_rows(Slot* slot, std::int64_t b, std::int64_t first_row, std::int64_t masked,
                    std::uint64_t sample) noexcept {
  std::int64_t& read = slot->batch.counts[slot->read_stream];
  const auto add = [&](std::int64_t row) {
    BASCULE_CHECK(read < slot->bounds[slot->read_stream]);
    if (slot->read_row_keys != nullptr)
      slot->read_row_keys[read] = row_key(sample, static_cast<std::uint64_t>(row - first_row));
    slot->read_rows[read++] = static_cast<std::int32_t>(row);
  };
  add(first_row);
  for (; masked < slot->batch.counts[slot->masked_stream]; ++masked) {
    if (slot->masked_rows[masked] != first_row) add(slot->masked_rows[masked]);
    slot->masked_among_read[masked] = static_cast<std::int32_t>(read - 1);
  }
  slot->read_offsets[b + 1] = static_cast<std::int32_t>(read);
}

// A caption is one that longest_caption() has seen pass.
Encoded encode(const Manifest& manifest, const TextSettings& settings, std::int64_t caption_row, Span<std::int32_t> ids,
               TextScratch& scratch) noexcept {
  if (settings.corpus != nullptr) return settings.corpus->write(caption_row, ids);
  Encoded encoded;
  BASCULE_CHECK(
      settings.tokenizer->encode_into(texts_of(manifest.row(caption_row)), ids, &encoded, scratch.tokenizer).ok());
  return encoded;
}

// Appends a caption to the batch, as the text of its sample b, whose picture is of `row`. kLongCaption: it has more
// tokens than any was to have.
Status write_caption(Slot* slot, std::int64_t b, std::int64_t row, std::int64_t caption_row, const Manifest& manifest,
                     const TextSettings& settings, std::uint64_t sample, TextScratch& scratch) noexcept {
  std::int64_t& tokens = slot->batch.counts[slot->token_stream];
  const std::int64_t first_row = tokens;
  const std::int64_t longest = slot->bounds[slot->token_stream] / slot->bounds.samples();
  // Room for one token more than planned, so that none is cut away unseen.
  const std::int64_t space = std::min(settings.max_seq_length, longest + 1);
  const Span<std::int32_t> free_ids(slot->token_ids + first_row, static_cast<std::size_t>(space));
  const Encoded encoded = encode(manifest, settings, caption_row, free_ids, scratch);
  const std::int64_t count = encoded.tokens;
  if (count > longest) return Status{StatusCode::kLongCaption, {caption_row, longest}};
  const Span<std::int32_t> ids = free_ids.first(static_cast<std::size_t>(count));
  const std::int64_t masked_before = slot->batch.counts[slot->masked_stream];
  if (settings.masks_tokens) {
    mask_sample(slot, settings, ids, first_row, row, scratch.labels.first(ids.size()));
  }
  if (slot->read_rows != nullptr) list_read_rows(slot, b, first_row, masked_before, sample);
  if (slot->position_ids != nullptr) write_positions(slot->position_ids + first_row, ids, settings.positions);
  if (slot->token_types != nullptr) {
    std::int32_t* const types = slot->token_types + first_row;
    std::fill(types, types + encoded.second_begin, 0);
    std::fill(types + encoded.second_begin, types + count, settings.tokenizer->second_type());
  }
  if (slot->text_row_keys != nullptr) {
    for (std::int64_t t = 0; t < count; ++t)
      slot->text_row_keys[first_row + t] = row_key(sample, static_cast<std::uint64_t>(t));
  }
  tokens += count;
  if (slot->text_offsets != nullptr) slot->text_offsets[b + 1] = static_cast<std::int32_t>(tokens);
  return ok_status();
}

// Writes sample b of the batch, except its picture.
Status write_sample(Slot* slot, std::int64_t b, std::int64_t row, const Manifest& manifest,
                    const TextSettings& settings, std::uint64_t sample, TextScratch& scratch) noexcept {
  const MatchingSample match = caption_for(manifest, settings, slot->place.epoch, row);
  slot->rows[b] = row;
  slot->caption_rows[b] = match.caption_row;
  if (slot->sample_keys != nullptr) slot->sample_keys[b] = row_key(sample, 0);
  if (slot->match_labels != nullptr) slot->match_labels[b] = match.label;
  if (slot->class_labels != nullptr) slot->class_labels[b] = manifest.row(row).label;
  if (slot->token_ids == nullptr) return ok_status();
  return write_caption(slot, b, row, match.caption_row, manifest, settings, sample, scratch);
}

void write_image_keys(Slot* slot, std::int64_t b, std::uint64_t sample) noexcept {
  const std::int64_t rows = slot->image_rows;
  for (std::int64_t i = 0; i < rows; ++i) {
    slot->image_row_keys[b * rows + i] = row_key(sample, static_cast<std::uint64_t>(i));
  }
}

// A sample without a partner keeps all of its label.
void mix_samples(Slot* slot, const MixSettings& settings) noexcept {
  const std::int64_t samples = slot->batch.counts.samples();
  std::copy_n(slot->class_labels, samples, slot->mixed_labels);
  std::fill_n(slot->label_shares, samples, 1.0F);
  if (!settings.is_on()) return;
  BASCULE_CHECK(samples == slot->place.count && slot->place.first_position % 2 == 0);
  for (std::int64_t b = 0; b + 1 < samples; b += 2) {
    const PairMix mix = draw_mix(settings, slot->place.epoch, (slot->place.first_position + b) / 2);
    mix_pictures(slot->pixels_of(b), slot->pixels_of(b + 1), settings.side, mix);
    std::swap(slot->mixed_labels[b], slot->mixed_labels[b + 1]);
    std::fill_n(slot->label_shares + b, 2, static_cast<float>(mix.share));
  }
}

}  // namespace

std::size_t TextScratch::bytes(std::size_t tokenizer_bytes, std::int64_t longest_caption) noexcept {
  return align_up(tokenizer_bytes, kCacheLine) + label_bytes(longest_caption);
}

TextScratch::TextScratch(Span<std::byte> memory, std::int64_t longest_caption) noexcept
    : tokenizer(memory.first(memory.size() - label_bytes(longest_caption))),
      labels(
          static_cast<std::int32_t*>(static_cast<void*>(memory.data() + memory.size() - label_bytes(longest_caption))),
          static_cast<std::size_t>(longest_caption)) {}

Span<std::int32_t> tokens_of(const Manifest& manifest, const TextSettings& settings, std::int64_t row,
                             Span<std::int32_t> ids, TextScratch& scratch) noexcept {
  const std::size_t room = std::min(ids.size(), static_cast<std::size_t>(settings.max_seq_length));
  return ids.first(static_cast<std::size_t>(encode(manifest, settings, row, ids.first(room), scratch).tokens));
}

std::int64_t max_masked_tokens(const TextSettings& settings, const Manifest& manifest, std::int64_t samples,
                               std::int64_t longest) noexcept {
  if (!settings.masks_tokens) return 0;
  // A block of a corpus may lie within a text.
  const std::int64_t special =
      settings.corpus != nullptr ? 0 : settings.tokenizer->special_tokens(manifest.has_pairs());
  return selection_bound(samples, longest, longest - special, settings.masking);
}

void begin_batch(Slot* slot) noexcept {
  Batch& batch = slot->batch;
  batch = Batch();
  batch.counts[kSamples] = slot->place.count;
  std::copy(std::begin(slot->fields), std::end(slot->fields), batch.fields);
  batch.rows = slot->rows;
  batch.caption_rows = slot->caption_rows;
  batch.epoch = slot->place.epoch;
  batch.index = slot->place.index;
  batch.first_position = slot->place.first_position;
  batch.positions = slot->place.count;
  if (slot->text_offsets != nullptr) slot->text_offsets[0] = 0;
  if (slot->read_offsets != nullptr) slot->read_offsets[0] = 0;
  slot->status = ok_status();
}

void complete_batch(Slot* slot, const Manifest& manifest, const TextSettings& settings, const MixSettings& mix,
                    std::int64_t samples_per_epoch, TextScratch& scratch) noexcept {
  slot->status = first_failure(*slot);
  if (!slot->status.ok()) return;
  std::int64_t b = 0;
  for (std::int64_t place = 0; place < slot->place.count; ++place) {
    const std::int64_t row = slot->samples[place].row;
    if (row == SampleRecord::kLeftOut) continue;
    if (b != place && slot->pixels != nullptr)
      std::copy_n(slot->pixels_of(place), slot->pixels_per_sample, slot->pixels_of(b));
    const std::int64_t number = slot->place.epoch * samples_per_epoch + slot->place.first_position + place;
    const std::uint64_t sample = static_cast<std::uint64_t>(number);
    write_image_keys(slot, b, sample);
    slot->status = write_sample(slot, b, row, manifest, settings, sample, scratch);
    if (!slot->status.ok()) return;
    ++b;
  }
  slot->batch.counts[kSamples] = b;
  if (slot->label_shares != nullptr) mix_samples(slot, mix);
}

}  // namespace bascule
