// SPDX-License-Identifier: Apache-2.0
#include "src/loader/stream.h"

#include <algorithm>
#include <limits>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/loader/label_count.h"
#include "src/loader/workers.h"

namespace bascule {

Stream::Stream(StreamState& state, Workers& workers, Span<ReplacedSample> listed, LabelCount* counts)
    : state_(state), workers_(workers), counts_(counts), listed_(listed) {}

std::int64_t Stream::batches_per_epoch() const noexcept { return state_.order.batches_per_epoch(); }
std::int64_t Stream::samples_per_epoch() const noexcept { return state_.order.samples_per_epoch(); }

void Stream::start(std::int64_t first, std::int64_t end) noexcept {
  BASCULE_CHECK(!is_lent_ && first >= 0);
  state_.ring.halt();
  if (state_.order.is_sequential()) {
    statistics_.bad_samples = 0;
    listed_count_ = 0;
  }
  next_ = first;
  opened_ = first;
  end_ = end;
  state_.ring.begin(first);
  for (std::int64_t i = 0; i < state_.ring.slots(); ++i) open_next();
  workers_.note_start();
}

void Stream::open_next() noexcept {
  if (opened_ >= end_) return;
  Slot& slot = state_.slot(opened_);
  slot.place = state_.order.place(opened_);
  slot.order = state_.order.epoch_order(slot.place.epoch);
  begin_batch(&slot);
  state_.ring.open(opened_++);
}

Status Stream::next(const Batch** batch) noexcept {
  BASCULE_CHECK(!is_lent_);
  if (next_ >= end_) return Status{StatusCode::kEndOfEpoch, {0, 0}};
  wait_for_batch();
  const Slot& slot = state_.slot(next_);
  if (!slot.status.ok()) {
    list_failure(next_);
    return slot.status;
  }
  list_replacements(next_);
  ++statistics_.batches;
  statistics_.samples += slot.batch.counts.samples();
  is_lent_ = true;
  *batch = &slot.batch;
  return ok_status();
}

void Stream::wait_for_batch() noexcept {
  ++calls_;
  for (std::int64_t number = next_; number < opened_; ++number) occupancy_ += state_.ring.is_ready(number) ? 1 : 0;
  if (state_.ring.is_ready(next_)) return;
  const std::int64_t begin_ns = monotonic_ns();
  workers_.await(state_, next_);
  statistics_.step_wait_seconds += static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
}

std::int64_t Stream::labelled_ahead(std::int64_t batches) noexcept {
  BASCULE_CHECK(is_lent_ && counts_ != nullptr && !state_.folder);
  return counts_->of(state_.manifest, state_.samples, state_.order, next_, next_ + batches);
}

void Stream::release() noexcept {
  BASCULE_CHECK(is_lent_);
  is_lent_ = false;
  ++next_;
  open_next();
  workers_.wake();
}

void Stream::list_replacements(std::int64_t number) noexcept {
  const Slot& slot = state_.slot(number);
  for (std::int64_t b = 0; b < slot.place.count; ++b) {
    const SampleRecord& sample = slot.samples[b];
    if (sample.bad_rows == 0) continue;
    const std::int64_t position = slot.place.first_position + b;
    const std::int64_t bad_row = state_.order.row(slot.order, slot.place.epoch, position % state_.order.rows());
    if (is_listed(slot.place.epoch, position)) continue;
    ++statistics_.bad_samples;
    if (listed_count_ == listed_.size()) continue;
    listed_[listed_count_++] = ReplacedSample{slot.place.epoch, position, sample.row, bad_row, sample.reason};
  }
}

// A picture that ends the run is listed too, with no row in its place: it may be mended before the run goes on.
void Stream::list_failure(std::int64_t number) noexcept {
  const Slot& slot = state_.slot(number);
  if (slot.status.code != StatusCode::kBadSample && slot.status.code != StatusCode::kReadFailed) return;
  std::int64_t b = 0;
  while (b < slot.place.count && slot.samples[b].status.ok()) ++b;
  if (b == slot.place.count || listed_count_ == listed_.size()) return;
  listed_[listed_count_++] = ReplacedSample{slot.place.epoch, slot.place.first_position + b, kNoRow,
                                            slot.status.detail[0], slot.status.detail[1]};
}

// A sample is given again after a resume, where the update that it was for had failed.
bool Stream::is_listed(std::int64_t epoch, std::int64_t position) const noexcept {
  const Span<const ReplacedSample> listed = replacements();
  return std::any_of(listed.begin(), listed.end(),
                     [&](const ReplacedSample& one) { return one.epoch == epoch && one.position == position; });
}

Span<const ReplacedSample> Stream::replacements() const noexcept { return listed_.first(listed_count_); }

void Stream::restore_replacements(Span<const ReplacedSample> replaced, std::int64_t bad_samples) {
  statistics_.bad_samples = bad_samples;
  listed_count_ = std::min(replaced.size(), listed_.size());
  std::copy(replaced.begin(), replaced.begin() + listed_count_, listed_.begin());
}

StreamStatistics Stream::statistics() const noexcept {
  StreamStatistics result = statistics_;
  if (calls_ > 0) result.mean_occupancy = static_cast<double>(occupancy_) / static_cast<double>(calls_);
  result.loaded_samples = state_.loaded_samples.load();
  result.processor_seconds = static_cast<double>(state_.processor_ns.load()) * 1e-9;
  result.loading_seconds = (result.processor_seconds + static_cast<double>(state_.blocked_ns.load()) * 1e-9) /
                           static_cast<double>(workers_.worker_count());
  return result;
}

double deliverable_samples_per_second(const StreamStatistics& from, const StreamStatistics& to) noexcept {
  const double seconds = to.loading_seconds - from.loading_seconds;
  const std::int64_t loaded = to.loaded_samples - from.loaded_samples, taken = to.samples - from.samples;
  const bool is_measured = seconds > 0.0 && loaded > 0 && 2 * loaded >= taken;
  return is_measured ? static_cast<double>(loaded) / seconds : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace bascule
