// SPDX-License-Identifier: Apache-2.0
// The decode units: take a descriptor, decode into device memory, transfer, complete. Injected faults
// happen here.
#include <cstring>

#include "firmware_shims/hpu_sim/device.h"

namespace bascule::hpu_sim {
namespace {

constexpr std::uint32_t kDescriptorWords = 47;
constexpr std::uint32_t kCompletionWords = 15;
static_assert(sizeof(hpu_sim_descriptor) == 4 * (kDescriptorWords + 1));
static_assert(sizeof(hpu_sim_completion) == 4 * (kCompletionWords + 1));

template <typename T>
std::uint32_t checksum_of(const T& block, std::uint32_t words) {
  return hpu_sim_checksum(static_cast<const std::uint32_t*>(static_cast<const void*>(&block)), words);
}

// Host memory as DMA reaches it.
template <typename T>
T* host_address(std::uint64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

std::uint64_t joined(std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; }

template <typename T>
void flip_a_bit(T* block, std::uint64_t choice) {
  auto* const bytes = static_cast<unsigned char*>(static_cast<void*>(block));
  bytes[choice % sizeof(T)] ^= static_cast<unsigned char>(1U << (choice >> 32) % 8);
}

constexpr std::uint64_t kElementBytes = sizeof(float);

}  // namespace

void Device::work(Unit& unit) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_ending_ || can_take(); });
    if (is_ending_) return;
    Task task;
    if (!take(&task, unit)) continue;
    ++working_;
    lock.unlock();
    const hpu_sim_completion completion = serve(unit, task);
    lock.lock();
    complete(unit, task, completion);
    unit.unit_register = 0;
    --working_;
    settle();
  }
}

bool Device::can_take() const {
  const bool is_enabled = (registers_.status & HPU_SIM_STATUS_ENABLED) != 0;
  return is_enabled && !is_gone_ && transition_ == Transition::kNone && registers_.sq_head != registers_.sq_tail;
}

// False: it was cancelled.
bool Device::take(Task* task, Unit& unit) {
  Registers& r = registers_;
  task->entry = r.sq_head++;
  const std::uint32_t index = task->entry % r.sq_size;
  if (cancelled_[index]) return false;
  const auto* const ring = host_address<const hpu_sim_descriptor>(joined(r.sq_base_high, r.sq_base_low));
  task->descriptor = ring[index];
  task->rung_at = rung_at_[index];
  task->number = ++pictures_;
  unit.unit_register = HPU_SIM_UNIT_BUSY | task->entry;
  count(HPU_SIM_COUNT_FETCHED);
  post_late(task->descriptor.job);
  strike_at_taking(task);
  return true;
}

void Device::strike_at_taking(Task* task) {
  const std::uint64_t number = task->number;
  if (injects(Fault::kCorruptedDescriptor, number)) {
    flip_a_bit(&task->descriptor, draw(options_, Fault::kCorruptedDescriptor, number));
  }
  if (strikes(options_, Fault::kLostDoorbell, number)) loses_doorbell_ = true;
  if (registers_.int_enable != 0 && injects(Fault::kSpuriousInterrupt, number)) raise(0);
  ++working_;  // the transition waits for this unit as well
  const bool resets = injects(Fault::kResetStorm, number) || injects(Fault::kHungReset, number) ||
                      injects(Fault::kSurpriseReset, number);
  if (resets) begin(Transition::kSurpriseReset);
  if (injects(Fault::kDeviceGone, number)) begin(Transition::kGone);
  --working_;
}

hpu_sim_completion Device::serve(Unit& unit, const Task& task) {
  hpu_sim_completion completion = {};
  completion.entry = task.entry;
  if (!is_sound(task)) {
    completion.status = HPU_SIM_ERROR_DESCRIPTOR;
    return completion;
  }
  completion.job = task.descriptor.job;
  wait_for_pace(unit, task);
  if (strikes(options_, Fault::kStalledUnit, task.number)) wait_for_transition();
  if (strikes(options_, Fault::kDecodeError, task.number)) {
    completion.status = HPU_SIM_ERROR_DECODE;
    return completion;
  }
  if (stop_) return completion;
  decode(&completion, unit, task);
  if (completion.status == MEDIA_ENGINE_OK && !stop_) transfer(&completion, unit, task);
  return completion;
}

bool Device::is_sound(const Task& task) const {
  const hpu_sim_descriptor& d = task.descriptor;
  if (d.checksum != checksum_of(d, kDescriptorWords) || d.entry != task.entry) return false;
  const bool knows_form = d.element == MEDIA_ENGINE_FLOAT32 && d.preparation >= MEDIA_ENGINE_TRAINING &&
                          d.preparation <= MEDIA_ENGINE_SQUARE_PROCESSOR;
  return knows_form && d.side >= 1 && d.side <= board_.max_side &&
         d.target_bytes == std::uint64_t{3} * d.side * d.side * kElementBytes;
}

// Latency counts from the doorbell, so that pictures in the queue wait for it together; a unit that always has work
// takes exactly 1 / rate from picture to picture, unless the host's arithmetic is slower than that.
void Device::wait_for_pace(Unit& unit, const Task& task) {
  const auto latency = std::chrono::duration<double, std::milli>(options_.latency_ms);
  const auto pace = std::chrono::duration<double>(options_.rate > 0.0 ? 1.0 / options_.rate : 0.0);
  const Clock::time_point arrived = task.rung_at + std::chrono::duration_cast<Clock::duration>(latency);
  const Clock::time_point begun = arrived > unit.free_at ? arrived : unit.free_at;
  unit.free_at = begun + std::chrono::duration_cast<Clock::duration>(pace);
  if (unit.free_at <= Clock::now()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, unit.free_at, [&] { return is_ending_ || transition_ != Transition::kNone; });
}

void Device::wait_for_transition() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++injected_[static_cast<int>(Fault::kStalledUnit)];
  changed_.wait(lock, [&] { return is_ending_ || transition_ != Transition::kNone; });
}

void Device::decode(hpu_sim_completion* completion, Unit& unit, const Task& task) {
  const hpu_sim_descriptor& d = task.descriptor;
  media_engine_job job = {};
  job.encoded = host_address<const std::uint8_t>(d.source);
  job.encoded_bytes = d.source_bytes;
  job.pixels = unit.pixels;
  job.side = d.side;
  job.preparation = d.preparation;
  job.element = d.element;
  job.raw = d.raw;
  std::memcpy(job.mean, d.mean, sizeof job.mean);
  std::memcpy(job.std, d.std, sizeof job.std);
  job.shortest_edge = d.shortest_edge;
  job.size_divisor = d.size_divisor;
  job.levels = d.levels;
  job.interpolation = d.interpolation;
  job.augment = d.augment;
  std::memcpy(job.random_key, d.random_key, sizeof job.random_key);
  std::memcpy(job.random_counter, d.random_counter, sizeof job.random_counter);
  std::memcpy(job.crop_scale, d.crop_scale, sizeof job.crop_scale);
  std::memcpy(job.crop_ratio, d.crop_ratio, sizeof job.crop_ratio);
  codec::PictureFacts facts;
  codec::Arena* area = &unit.small_area;
  area->used_bytes = 0;
  codec::Verdict verdict =
      codec::prepare_picture(&facts, {&unit.reader, nullptr, nullptr}, area, job, settings_, &stop_);
  std::size_t used_bytes = area->used_bytes;
  if (verdict.status == MEDIA_ENGINE_PICTURE_TOO_LARGE && large_area_.size_bytes > area->size_bytes) {
    const std::lock_guard<std::mutex> lock(large_area_mutex_);
    large_area_.used_bytes = 0;
    verdict = codec::prepare_picture(&facts, {&unit.reader, nullptr, nullptr}, &large_area_, job, settings_, &stop_);
    used_bytes = large_area_.used_bytes;
  }
  completion->status = verdict.status;
  completion->detail = verdict.detail;
  completion->width = facts.width;
  completion->height = facts.height;
  completion->orientation = facts.orientation;
  completion->picture_kib = static_cast<std::uint32_t>((used_bytes + 1023) / 1024);
}

void Device::transfer(hpu_sim_completion* completion, const Unit& unit, const Task& task) {
  const hpu_sim_descriptor& d = task.descriptor;
  const std::uint32_t words = static_cast<std::uint32_t>(d.target_bytes / 4);
  std::uint32_t sent = words, said = words;
  if (strikes(options_, Fault::kShortDma, task.number)) {
    const std::uint64_t choice = draw(options_, Fault::kShortDma, task.number);
    sent = words - 1 - static_cast<std::uint32_t>(choice % words);
    said = task.number % 2 == 0 ? sent : words;
  }
  std::memcpy(host_address<void>(d.target), unit.pixels, std::size_t{sent} * 4);
  completion->written_bytes = said * 4;
  completion->pixels_checksum =
      hpu_sim_checksum(static_cast<const std::uint32_t*>(static_cast<const void*>(unit.pixels)), words);
}

void Device::complete(Unit& unit, const Task& task, hpu_sim_completion completion) {
  if (is_ending_) return;
  if (transition_ != Transition::kNone) return count(HPU_SIM_COUNT_ABANDONED);
  if (completion.status >= 0) count(HPU_SIM_COUNT_DECODED);
  if (completion.status == MEDIA_ENGINE_OK) {
    count(HPU_SIM_COUNT_TRANSFERS);
    (void)injects(Fault::kShortDma, task.number);
  }
  if (completion.status == HPU_SIM_ERROR_DECODE) (void)injects(Fault::kDecodeError, task.number);
  const bool is_good = completion.status >= 0;
  if (is_good && injects(Fault::kLostCompletion, task.number)) return;
  if (is_good && injects(Fault::kQueueOverrun, task.number)) return overrun();
  if (is_good && !unit.holds_late && injects(Fault::kLateCompletion, task.number)) {
    unit.holds_late = true;
    unit.late = completion;
    return;
  }
  post(completion, injects(Fault::kCorruptedCompletion, task.number), task.number);
  if (is_good && injects(Fault::kDuplicatedCompletion, task.number)) post(completion, false, task.number);
}

void Device::post(hpu_sim_completion completion, bool is_corrupted, std::uint64_t number) {
  Registers& r = registers_;
  if (r.cq_tail - r.cq_head >= r.cq_size) return overrun();
  const std::uint64_t choice = draw(options_, Fault::kCorruptedCompletion, number);
  const bool is_stale = is_corrupted && (choice >> 40) % 2 == 0;
  completion.number = is_stale ? r.cq_tail - r.cq_size : r.cq_tail;
  completion.checksum = checksum_of(completion, kCompletionWords);
  if (is_corrupted && !is_stale) flip_a_bit(&completion, choice);
  host_address<hpu_sim_completion>(joined(r.cq_base_high, r.cq_base_low))[r.cq_tail % r.cq_size] = completion;
  ++r.cq_tail;
  count(HPU_SIM_COUNT_COMPLETIONS);
  raise(HPU_SIM_INT_COMPLETION);
}

// The driver asks for the same picture again: now comes what it has given up.
void Device::post_late(std::uint64_t job) {
  for (std::uint32_t u = 0; u < unit_count_; ++u) {
    if (!units_[u].holds_late || units_[u].late.job != job) continue;
    units_[u].holds_late = false;
    post(units_[u].late, false, 0);
  }
}

// `cause` 0: the line rises for nothing.
void Device::raise(std::uint32_t cause) {
  registers_.int_status |= cause;
  if (cause != 0 && (registers_.int_enable & cause) == 0) return;
  count(HPU_SIM_COUNT_INTERRUPTS);
  board_.interrupt(board_.context);
}

void Device::overrun() {
  registers_.status |= HPU_SIM_STATUS_OVERRUN;
  raise(HPU_SIM_INT_ERROR);
}

}  // namespace bascule::hpu_sim
