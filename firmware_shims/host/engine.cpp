// SPDX-License-Identifier: Apache-2.0
// The host engine: libjpeg-turbo, libpng, libwebp and our resampling, in the threads that poll. One engine serves any
// number of them; `units` is how many decode at the same time, each with a decoder and some memory of its own. A
// picture that needs more than that (one of several scans and many pixels) starts again in the one large area that all
// units share and take in turn; so what is refused for its size is so whatever runs beside. Other formats than JPEG
// take a quarter of the large area at most: beside a device the rest is not there as long as there is a device (see
// companion/engine.cpp).
//
// Memory: engine | slots | units | small area of each unit | large area. After open nothing is allocated; libjpeg takes
// some 2 KB a unit from the system at open, libpng and libwebp live in the areas.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

#include "firmware_shims/codec/jpeg.h"
#include "firmware_shims/codec/png.h"
#include "firmware_shims/codec/prepare.h"
#include "firmware_shims/codec/webp.h"
#include "firmware_shims/driver.h"
#include "kernels/resize.h"

namespace bascule {
namespace {

constexpr std::uint32_t kMaxUnits = 256;
constexpr std::uint32_t kMaxQueueDepth = 4096;
constexpr std::uint32_t kMaxSide = 4096;
constexpr std::size_t kSmallAreaBytes = std::size_t{4} << 20;  // enough for nearly all pictures of one scan
constexpr std::uint64_t kLongestWaitNs = 1'000'000'000ULL * 1'000'000'000ULL;

enum class SlotState { kFree, kQueued, kRunning, kDropped };  // kDropped: running, but reset has given the job away

struct Slot {
  media_engine_job job;
  std::uint64_t order;  // of submission
  SlotState state;
};

struct Unit {
  codec::JpegReader jpeg;
  codec::PngReader png;
  codec::WebpReader webp;
  codec::Arena small_area;
  bool busy = false;
};

struct HostEngine : media_engine {
  codec::PreparationSettings settings;
  Slot* slots;
  Unit* units;
  std::uint32_t slot_count, unit_count;
  codec::Arena large_area;
  std::mutex large_area_mutex;

  std::mutex mutex;  // guards all below, the slots and Unit::busy
  std::condition_variable changed;
  std::uint64_t next_order;
  std::uint32_t running;
  bool resetting;
  std::atomic<bool> stop;
  media_engine_statistics statistics;
};

HostEngine& host(media_engine* engine) { return *static_cast<HostEngine*>(engine); }

struct Layout {
  std::size_t slots, units, small_areas, large_area, total;  // offsets
  std::size_t small_area_bytes;
};

Layout layout_of(const media_engine_config& config) {
  Layout layout;
  layout.slots = codec::arena_rounded(sizeof(HostEngine));
  layout.units = layout.slots + codec::arena_rounded(config.queue_depth * sizeof(Slot));
  layout.small_areas = layout.units + codec::arena_rounded(config.units * sizeof(Unit));
  layout.small_area_bytes =
      codec::arena_rounded(config.picture_bytes < kSmallAreaBytes ? config.picture_bytes : kSmallAreaBytes);
  layout.large_area = layout.small_areas + config.units * layout.small_area_bytes;
  layout.total = layout.large_area + codec::arena_rounded(config.picture_bytes);
  return layout;
}

// The part of the large area that is for other formats than JPEG.
std::size_t other_area_bytes(std::size_t picture_bytes) { return codec::arena_rounded(picture_bytes / 4); }

media_engine_capabilities query() {
  media_engine_capabilities can = {};
  can.api_version = MEDIA_ENGINE_API_VERSION;
  can.name = "host";
  can.preparations = 1U << MEDIA_ENGINE_TRAINING | 1U << MEDIA_ENGINE_PROCESSOR | 1U << MEDIA_ENGINE_SQUARE_PROCESSOR;
  can.elements = 1U << MEDIA_ENGINE_FLOAT32;
  can.formats = 1U << MEDIA_ENGINE_FORMAT_JPEG | 1U << MEDIA_ENGINE_FORMAT_PNG | 1U << MEDIA_ENGINE_FORMAT_WEBP;
  can.works_in_poll = 1;
  can.max_units = kMaxUnits;
  can.max_queue_depth = kMaxQueueDepth;
  can.max_side = kMaxSide;
  return can;
}

// 0: so much that it cannot be counted.
std::size_t memory_needed(const media_engine_config* config) {
  if (config->picture_bytes > SIZE_MAX / 2) return 0;
  return layout_of(*config).total;
}

void close(media_engine* engine);

media_engine_status open(media_engine** engine, const media_engine_config* config) {
  const Layout layout = layout_of(*config);
  auto* const memory = static_cast<std::uint8_t*>(config->memory);
  auto* const self = new (memory) HostEngine{};
  self->driver = config->driver;
  self->max_side = config->max_side;
  self->settings.limits = {config->max_pixels, config->max_scans, config->max_scan_megapixels};
  self->settings.scale_in_decoder = config->scale_in_decoder != 0;
  self->settings.kernels = &resize_kernels_for(best_isa());
  self->slots = new (memory + layout.slots) Slot[config->queue_depth]{};
  self->slot_count = config->queue_depth;
  self->units = static_cast<Unit*>(static_cast<void*>(memory + layout.units));
  self->large_area = {memory + layout.large_area, codec::arena_rounded(config->picture_bytes), 0};
  bool ready = true;
  for (std::uint32_t u = 0; u < config->units; ++u) {
    Unit* const unit = new (self->units + u) Unit;
    unit->small_area = {memory + layout.small_areas + u * layout.small_area_bytes, layout.small_area_bytes, 0};
    ready = ready && unit->jpeg.is_ready();
    ++self->unit_count;
  }
  if (!ready) {
    close(self);
    return MEDIA_ENGINE_NO_MEMORY;
  }
  *engine = self;
  return MEDIA_ENGINE_OK;
}

Slot* find_job(HostEngine& self, std::uint64_t sequence) {
  for (std::uint32_t i = 0; i < self.slot_count; ++i) {
    Slot& slot = self.slots[i];
    const bool is_in = slot.state == SlotState::kQueued || slot.state == SlotState::kRunning;
    if (is_in && slot.job.sequence == sequence) return &slot;
  }
  return nullptr;
}

media_engine_status submit(media_engine* engine, const media_engine_job* job) {
  HostEngine& self = host(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (find_job(self, job->sequence) != nullptr) return MEDIA_ENGINE_INVALID;
  for (std::uint32_t i = 0; i < self.slot_count && !self.resetting; ++i) {
    if (self.slots[i].state != SlotState::kFree) continue;
    self.slots[i] = {*job, self.next_order++, SlotState::kQueued};
    ++self.statistics.submitted;
    ++self.statistics.in_flight;
    self.changed.notify_one();
    return MEDIA_ENGINE_OK;
  }
  ++self.statistics.refused_full;
  return MEDIA_ENGINE_FULL;
}

Slot* oldest_queued(HostEngine& self) {
  Slot* oldest = nullptr;
  for (std::uint32_t i = 0; i < self.slot_count; ++i) {
    Slot& slot = self.slots[i];
    if (slot.state == SlotState::kQueued && (oldest == nullptr || slot.order < oldest->order)) oldest = &slot;
  }
  return oldest;
}

Unit* free_unit(HostEngine& self) {
  for (std::uint32_t u = 0; u < self.unit_count; ++u) {
    if (!self.units[u].busy) return &self.units[u];
  }
  return nullptr;
}

struct Outcome {
  codec::Verdict verdict;
  codec::PictureFacts facts;
  std::size_t peak_bytes;
};

Outcome prepare_in(HostEngine& self, Unit& unit, const media_engine_job& job, codec::Arena* area) {
  Outcome outcome;
  area->used_bytes = 0;
  const codec::Readers readers = {&unit.jpeg, &unit.png, &unit.webp};
  outcome.verdict = codec::prepare_picture(&outcome.facts, readers, area, job, self.settings, &self.stop);
  outcome.peak_bytes = area->used_bytes;
  return outcome;
}

Outcome prepare(HostEngine& self, Unit& unit, const media_engine_job& job) {
  const Outcome outcome = prepare_in(self, unit, job, &unit.small_area);
  if (outcome.verdict.status != MEDIA_ENGINE_PICTURE_TOO_LARGE) return outcome;
  const bool is_jpeg = media_engine_format_of(job.encoded, job.encoded_bytes) == MEDIA_ENGINE_FORMAT_JPEG;
  codec::Arena large_area = self.large_area;
  if (!is_jpeg) large_area.size_bytes = other_area_bytes(large_area.size_bytes);
  if (large_area.size_bytes <= unit.small_area.size_bytes) return outcome;
  const std::lock_guard<std::mutex> lock(self.large_area_mutex);
  return prepare_in(self, unit, job, &large_area);
}

void count_completion(media_engine_statistics* statistics, const media_engine_job& job, const Outcome& outcome) {
  ++statistics->completed;
  statistics->encoded_bytes += job.encoded_bytes;
  if (outcome.verdict.ok()) {
    statistics->picture_pixels += std::uint64_t{outcome.facts.width} * outcome.facts.height;
  } else {
    ++statistics->bad_pictures;
  }
  if (outcome.peak_bytes > statistics->peak_picture_bytes) statistics->peak_picture_bytes = outcome.peak_bytes;
}

// Runs one queued job; the lock is held on entry and exit, not while the job runs. EMPTY: a reset took the job away
// meanwhile.
media_engine_status run(HostEngine& self, std::unique_lock<std::mutex>& lock, Slot& slot, Unit& unit,
                        media_engine_completion* completion) {
  slot.state = SlotState::kRunning;
  unit.busy = true;
  ++self.running;
  lock.unlock();
  const Outcome outcome = prepare(self, unit, slot.job);
  lock.lock();
  const bool dropped = slot.state == SlotState::kDropped;
  slot.state = SlotState::kFree;
  unit.busy = false;
  --self.running;
  self.changed.notify_all();
  if (dropped) return MEDIA_ENGINE_EMPTY;
  --self.statistics.in_flight;
  count_completion(&self.statistics, slot.job, outcome);
  *completion = {slot.job.sequence,   outcome.verdict.status, outcome.verdict.detail,
                 outcome.facts.width, outcome.facts.height,   outcome.facts.orientation};
  return MEDIA_ENGINE_OK;
}

media_engine_status wait(media_engine* engine, media_engine_completion* completion, std::uint64_t timeout_ns) {
  HostEngine& self = host(engine);
  const std::uint64_t bounded_ns = timeout_ns < kLongestWaitNs ? timeout_ns : kLongestWaitNs;
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(bounded_ns);
  std::unique_lock<std::mutex> lock(self.mutex);
  for (;;) {
    Slot* const slot = oldest_queued(self);
    if (slot == nullptr || self.resetting) return MEDIA_ENGINE_EMPTY;
    Unit* const unit = free_unit(self);
    if (unit != nullptr) return run(self, lock, *slot, *unit, completion);
    if (self.changed.wait_until(lock, until) == std::cv_status::timeout && free_unit(self) == nullptr)
      return MEDIA_ENGINE_TIMED_OUT;
  }
}

media_engine_status poll(media_engine* engine, media_engine_completion* completion) {
  HostEngine& self = host(engine);
  std::unique_lock<std::mutex> lock(self.mutex);
  Slot* const slot = oldest_queued(self);
  Unit* const unit = free_unit(self);
  if (slot == nullptr || unit == nullptr || self.resetting) return MEDIA_ENGINE_EMPTY;
  return run(self, lock, *slot, *unit, completion);
}

media_engine_status cancel(media_engine* engine, std::uint64_t sequence) {
  HostEngine& self = host(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  Slot* const slot = find_job(self, sequence);
  if (slot == nullptr) return MEDIA_ENGINE_NOT_FOUND;
  if (slot->state == SlotState::kRunning) return MEDIA_ENGINE_BUSY;
  slot->state = SlotState::kFree;
  ++self.statistics.cancelled;
  --self.statistics.in_flight;
  self.changed.notify_all();
  return MEDIA_ENGINE_OK;
}

// Tells running jobs to stop, and waits. JPEGs and PNGs stop within a few rows; a WebP is decoded to its end.
media_engine_status reset(media_engine* engine) {
  HostEngine& self = host(engine);
  std::unique_lock<std::mutex> lock(self.mutex);
  self.changed.wait(lock, [&] { return !self.resetting; });
  self.resetting = true;
  for (std::uint32_t i = 0; i < self.slot_count; ++i) {
    Slot& slot = self.slots[i];
    if (slot.state == SlotState::kFree) continue;
    slot.state = slot.state == SlotState::kQueued ? SlotState::kFree : SlotState::kDropped;
    ++self.statistics.reset_away;
    --self.statistics.in_flight;
  }
  self.stop = true;
  self.changed.wait(lock, [&] { return self.running == 0; });
  self.stop = false;
  self.resetting = false;
  self.changed.notify_all();
  return MEDIA_ENGINE_OK;
}

media_engine_statistics statistics(media_engine* engine) {
  HostEngine& self = host(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  return self.statistics;
}

void close(media_engine* engine) {
  reset(engine);
  HostEngine& self = host(engine);
  for (std::uint32_t u = 0; u < self.unit_count; ++u) self.units[u].~Unit();
  self.~HostEngine();
}

std::size_t memory_without_jpeg(const media_engine_config* config) {
  const Layout layout = layout_of(*config);
  return layout.large_area + other_area_bytes(layout.total - layout.large_area);
}

constexpr media_engine_driver kHostDriver = {
    query, memory_needed, open, submit, poll, wait, cancel, reset, statistics, close, memory_without_jpeg, nullptr};

}  // namespace
}  // namespace bascule

extern "C" const media_engine_driver* media_engine_host(void) { return &bascule::kHostDriver; }
