// SPDX-License-Identifier: Apache-2.0
#include "src/loader/ring.h"

#include "src/base/check.h"
#include "src/base/futex.h"

namespace bascule {

// A waiter announces itself before the kernel compares the count; a raiser changes the count before it looks for
// waiters. All in one total order, so one of the two sees the other.
void Event::raise() noexcept {
  count_.fetch_add(1);
  if (sleepers_.load() > 0) futex_wake_all(count_, FutexReach::kProcess);
}

void Event::wait_beyond(std::uint32_t seen) noexcept {
  sleepers_.fetch_add(1);
  if (count_.load() == seen) futex_wait(count_, seen, FutexReach::kProcess);
  sleepers_.fetch_sub(1);
}

namespace {

constexpr int kSampleBits = 20;
constexpr std::uint64_t kSampleMask = (std::uint64_t{1} << kSampleBits) - 1;
constexpr std::uint64_t kHalted = ~std::uint64_t{0};

constexpr std::uint64_t first_claim(std::int64_t number) { return static_cast<std::uint64_t>(number) << kSampleBits; }

}  // namespace

Ring::Ring(const BatchOrder& order, std::int64_t slots)
    : order_(order), slots_(slots), state_(new SlotState[static_cast<std::size_t>(slots)]), next_claim_(kHalted) {
  BASCULE_CHECK(slots >= 1 && order.max_samples() < static_cast<std::int64_t>(kSampleMask));
}

// An attempt is counted before it reads next_claim_, so once that says "halted" and nobody is counted, nobody holds an
// older value of it either.
void Ring::halt() noexcept {
  next_claim_.store(kHalted);
  for (;;) {
    const std::uint32_t seen = progress_.count();
    if (under_way_.load() == 0) break;
    progress_.wait_beyond(seen);
  }
  for (std::int64_t i = 0; i < slots_; ++i) state_[static_cast<std::size_t>(i)].ready.store(false);
}

void Ring::begin(std::int64_t first) noexcept {
  BASCULE_CHECK(next_claim_.load() == kHalted);
  open_end_.store(first);
  next_claim_.store(first_claim(first));
}

void Ring::open(std::int64_t number) noexcept {
  BASCULE_CHECK(number == open_end_.load());
  SlotState& slot = state_[slot_of(number)];
  const std::int64_t samples = order_.place(number).count;
  slot.unfinished.store(samples);
  slot.ready.store(samples == 0);
  open_end_.store(number + 1);
}

bool Ring::is_ready(std::int64_t number) const noexcept { return state_[slot_of(number)].ready.load(); }

void Ring::await(std::int64_t number) noexcept {
  is_awaited_.store(true);
  for (;;) {
    const std::uint32_t seen = progress_.count();
    if (is_ready(number)) break;
    progress_.wait_beyond(seen);
  }
  is_awaited_.store(false);
}

bool Ring::try_claim(SampleClaim* claim) noexcept {
  under_way_.fetch_add(1);
  std::uint64_t next = next_claim_.load();
  while (next != kHalted) {
    const std::int64_t number = static_cast<std::int64_t>(next >> kSampleBits);
    const std::int64_t sample = static_cast<std::int64_t>(next & kSampleMask);
    if (number >= open_end_.load()) break;
    const bool exhausted = sample >= order_.place(number).count;
    const std::uint64_t after = exhausted ? first_claim(number + 1) : next + 1;
    if (!next_claim_.compare_exchange_weak(next, after)) continue;
    if (!exhausted) {
      *claim = SampleClaim{number, sample};
      return true;
    }
    next = after;
  }
  end_claim();
  return false;
}

bool Ring::finish_sample(std::int64_t number) noexcept { return state_[slot_of(number)].unfinished.fetch_sub(1) == 1; }

void Ring::publish(std::int64_t number) noexcept {
  BASCULE_CHECK(!state_[slot_of(number)].ready.exchange(true));
  progress_.raise();
}

void Ring::end_claim() noexcept {
  if (under_way_.fetch_sub(1) == 1 && next_claim_.load() == kHalted) progress_.raise();
}

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
