// SPDX-License-Identifier: Apache-2.0
#include "src/loader/sample.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/check.h"

namespace bascule {
namespace {

Status first_failure(const Slot& slot) noexcept {
  for (std::int64_t b = 0; b < slot.place.count; ++b) {
    if (!slot.samples[b].status.ok()) return slot.samples[b].status;
  }
  return ok_status();
}

// The caption that goes with the picture, and whether it belongs to it.
MatchingSample caption_for(const Manifest& manifest, const SampleSettings& settings, std::int64_t epoch,
                           std::int64_t row) noexcept {
  if (!settings.exchanges_captions || manifest.is_unlabelled()) return MatchingSample{row, 1};
  if (manifest.has_labels()) return MatchingSample{row, manifest.row(row).label};
  return matching_sample(manifest, settings.negatives, epoch, row);
}

// Writes sample b of the batch, except its picture.
Status write_sample(Slot* slot, std::int64_t b, std::int64_t row, const Manifest& manifest,
                    const SampleSettings& settings, std::uint64_t sample, TextScratch& scratch) noexcept {
  const MatchingSample match = caption_for(manifest, settings, slot->place.epoch, row);
  slot->rows[b] = row;
  slot->rows_of_texts[b] = match.caption_row;
  if (slot->sample_keys != nullptr) {
    const std::int64_t each = slot->keys_of_sample;
    for (std::int64_t i = 0; i < each; ++i)
      slot->sample_keys[b * each + i] =
          row_key(sample * static_cast<std::uint64_t>(each) + static_cast<std::uint64_t>(i), 0);
  }
  if (slot->match_labels != nullptr) slot->match_labels[b] = match.label;
  if (slot->class_labels != nullptr) slot->class_labels[b] = std::max(0, manifest.row(row).label);
  if (slot->label_values != nullptr) slot->label_values[b] = manifest.row(row).value;
  for (int text = 0; text < kMaxTexts; ++text) {
    if (!slot->texts[text].is_read()) continue;
    const std::vector<TextSettings>& in_a_row = settings.texts[text];
    TextSample written{b * static_cast<std::int64_t>(in_a_row.size()),
                       slot->batch.counts[slot->texts[text].token_stream], row, match.caption_row, sample};
    for (const TextSettings& one : in_a_row) {
      BASCULE_TRY(write_text(slot, text, written, manifest, one, scratch));
      ++written.text;
    }
  }
  return ok_status();
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

void begin_batch(Slot* slot) noexcept {
  Batch& batch = slot->batch;
  batch = Batch();
  batch.counts[kSamples] = slot->place.count;
  std::copy(std::begin(slot->fields), std::end(slot->fields), batch.fields);
  batch.rows = slot->rows;
  batch.rows_of_texts = slot->rows_of_texts;
  batch.epoch = slot->place.epoch;
  batch.index = slot->place.index;
  batch.first_position = slot->place.first_position;
  batch.positions = slot->place.count;
  batch.first_position_of_all = slot->place.all.begin;
  batch.positions_of_all = slot->place.all.count;
  for (const TextSlot& text : slot->texts) {
    if (text.offsets != nullptr) text.offsets[0] = 0;
    if (text.read_offsets != nullptr) text.read_offsets[0] = 0;
  }
  slot->status = ok_status();
}

void complete_batch(Slot* slot, const Manifest& manifest, const SampleSettings& settings, const MixSettings& mix,
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
