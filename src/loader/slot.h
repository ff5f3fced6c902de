// SPDX-License-Identifier: Apache-2.0
// A ring slot: one batch and the record of each of its samples, laid over memory of the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/batch.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/loader/sampler.h"

namespace bascule {

// The capacity of a slot.
struct SlotShape {
  const Fields* fields = nullptr;  // outlive the slot
  BatchCounts bounds;
};

// How one sample went. Written by the worker that holds it, read by whoever completes the batch and by the step.
struct SampleRecord {
  static constexpr std::int64_t kLeftOut = -1;

  Status status;
  std::int64_t row = 0;       // whose picture is in the batch; kLeftOut: none is
  std::int64_t bad_rows = 0;  // rows that were tried before it and found bad, the sample's own first
  std::int64_t reason = 0;    // picture_reason() of the sample's own
};

// The arrays of the fields of one text, by their source; null where the model declares none.
struct TextSlot {
  std::int32_t* token_ids = nullptr;
  std::int32_t* token_types = nullptr;
  std::int32_t* position_ids = nullptr;
  std::int32_t* offsets = nullptr;
  std::uint64_t* row_keys = nullptr;
  std::int32_t* masked_rows = nullptr;
  std::int32_t* masked_labels = nullptr;
  std::int32_t* read_rows = nullptr;
  std::int32_t* read_offsets = nullptr;
  std::uint64_t* read_row_keys = nullptr;
  std::int32_t* masked_among_read = nullptr;
  std::int32_t* decoder_ids = nullptr;
  std::int32_t* labelled_rows = nullptr;
  std::int32_t* token_labels = nullptr;
  std::int32_t* labelled_words = nullptr;
  // Where the model declares such fields.
  int token_stream = 0, masked_stream = 0, read_stream = 0, labelled_stream = 0;

  bool is_read() const noexcept { return token_ids != nullptr; }
};

// The arrays of the other fields, likewise.
struct Slot {
  TextSlot texts[kMaxTexts];
  float* pixels = nullptr;
  std::uint64_t* image_row_keys = nullptr;
  std::uint64_t* sample_keys = nullptr;
  std::int32_t* match_labels = nullptr;
  std::int32_t* class_labels = nullptr;
  float* label_values = nullptr;
  std::int32_t* mixed_labels = nullptr;
  float* label_shares = nullptr;
  std::int64_t* rows = nullptr;
  std::int64_t* rows_of_texts = nullptr;
  SampleRecord* samples = nullptr;

  const void* fields[kMaxFields] = {};
  BatchCounts bounds;
  std::int64_t pixels_per_sample = 0;  // elements
  std::int64_t image_rows = 0;         // keys a sample
  std::int64_t keys_of_sample = 1;     // among sample_keys
  // Set when the slot is opened.
  BatchPlace place;
  EpochOrder order{0, 0, 1};
  // Set when the batch is complete.
  Batch batch;
  Status status;  // of the first sample, in order of position, that failed; then `batch` holds nothing

  float* pixels_of(std::int64_t sample) const noexcept { return pixels + sample * pixels_per_sample; }
};

// A multiple of 64.
std::size_t slot_bytes(const SlotShape& shape) noexcept;
// Requires slot_bytes(shape) bytes, 64-byte aligned.
Slot lay_out_slot(const SlotShape& shape, Span<std::byte> memory) noexcept;

}  // namespace bascule
