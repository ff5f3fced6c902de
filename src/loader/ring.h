// SPDX-License-Identifier: Apache-2.0
// The ring of slots between workers and step, what a slot holds, and the event that they wait for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/batch.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/loader/sampler.h"

namespace bascule {

// Sleeping until something changes, without a lock: a counter that is raised at every change, and a futex under it. No
// call allocates; usable after the seal from any thread.
//
//   const std::uint32_t seen = event.count();
//   if (!condition()) event.wait_beyond(seen);   // a change between the two lines is not lost; look again afterwards

class Event {
 public:
  std::uint32_t count() const noexcept { return count_.load(); }
  // Call after the change: wakes all that wait.
  void raise() noexcept;
  // Returns when count() is not `seen` any more, and sometimes for no reason.
  void wait_beyond(std::uint32_t seen) noexcept;

 private:
  alignas(kCacheLine) std::atomic<std::uint32_t> count_{0};
  std::atomic<std::int32_t> sleepers_{0};
};

// The hand-over between workers and step: which slots are open for filling, which sample is claimed next, which batch
// is ready. It knows numbers only, no contents. Lock-free; nothing allocates after the constructor; all but the
// constructor is for after the seal.
//
// A batch's way: the consumer opens it (its slot's header is written before) | workers claim its samples one by one, in
// order | the one that finishes the last of them completes the batch and publishes it | the consumer takes it, then
// releases it, which frees the slot for batch number + slots.
//
// Consumer functions belong to one thread. Data that a thread wrote before open, finish_sample or publish is visible to
// the threads that take the slot after it.

struct SampleClaim {
  std::int64_t number = 0;  // of the batch
  std::int64_t sample = 0;  // in the batch
};

class Ring {
 public:
  // Before the seal. `order` outlives the ring. slots >= 1.
  Ring(const BatchOrder& order, std::int64_t slots);

  std::int64_t slots() const noexcept { return slots_; }
  std::size_t slot_of(std::int64_t number) const noexcept { return static_cast<std::size_t>(number % slots_); }

  // Consumer. No sample can be claimed any more; returns when none is under way. Then every slot is closed.
  void halt() noexcept;
  // Consumer, after halt (or the constructor): batch `first` is the first to be opened.
  void begin(std::int64_t first) noexcept;
  // Consumer: opens the next batch; its slot's contents are the workers' now. An empty batch is ready at once.
  void open(std::int64_t number) noexcept;
  bool is_ready(std::int64_t number) const noexcept;
  // Consumer: sleeps until the batch, which is open, is ready.
  void await(std::int64_t number) noexcept;
  // True while the consumer sleeps in await.
  bool is_awaited() const noexcept { return is_awaited_.load(); }

  // Workers. True: *claim is theirs, and ends with finish_sample and end_claim.
  bool try_claim(SampleClaim* claim) noexcept;
  // True: that was the last of its batch, and the caller completes the contents and publishes it.
  bool finish_sample(std::int64_t number) noexcept;
  void publish(std::int64_t number) noexcept;
  void end_claim() noexcept;

 private:
  struct alignas(kCacheLine) SlotState {
    std::atomic<std::int64_t> unfinished{0};  // samples
    std::atomic<bool> ready{false};
  };

  const BatchOrder& order_;
  const std::int64_t slots_;
  std::unique_ptr<SlotState[]> state_;
  alignas(kCacheLine) std::atomic<std::uint64_t> next_claim_;  // batch number and sample, or kHalted
  alignas(kCacheLine) std::atomic<std::int64_t> open_end_{0};  // batches below this are open, or have been
  std::atomic<bool> is_awaited_{false};
  alignas(kCacheLine) std::atomic<std::int64_t> under_way_{0};  // claims, and attempts at one
  Event progress_;                                              // raised by workers for the consumer
};

// A ring slot: one batch and the record of each of its samples, laid over memory of the caller's.

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
  std::int32_t *token_ids = nullptr, *token_types = nullptr, *position_ids = nullptr, *offsets = nullptr;
  std::uint64_t* row_keys = nullptr;
  std::int32_t *masked_rows = nullptr, *masked_labels = nullptr, *read_rows = nullptr, *read_offsets = nullptr;
  std::uint64_t* read_row_keys = nullptr;
  std::int32_t *masked_among_read = nullptr, *decoder_ids = nullptr, *labelled_rows = nullptr;
  std::int32_t *token_labels = nullptr, *labelled_words = nullptr;
  // Where the model declares such fields.
  int token_stream = 0, masked_stream = 0, read_stream = 0, labelled_stream = 0;

  bool is_read() const noexcept { return token_ids != nullptr; }
};

// The arrays of the other fields, likewise.
struct Slot {
  TextSlot texts[kMaxTexts];
  float* pixels = nullptr;
  std::uint64_t *image_row_keys = nullptr, *sample_keys = nullptr;
  std::int32_t *match_labels = nullptr, *class_labels = nullptr;
  float* label_values = nullptr;
  std::int32_t* mixed_labels = nullptr;
  float* label_shares = nullptr;
  std::int64_t *rows = nullptr, *rows_of_texts = nullptr;
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
