// SPDX-License-Identifier: Apache-2.0
// A device, and the host engine beside it: what an engine with `host_units` is. The host decodes what the device's
// formats lack, and, where `fallback` is set, everything once the device is gone. All jobs that are in are remembered;
// when the device is given up, those that it has not done go to the host engine, under new names, so that nothing that
// the device said of them is believed afterwards. The results are the same.
//
// A call for a completion first runs the jobs queued in the host, then waits for the device.
//
// Memory: engine | records | what the host engine uses without a JPEG | the rest of the host engine's, and, as long as
// there is a device, the device engine's. So a fallback costs little, and nothing is taken when it happens.
#include <condition_variable>
#include <mutex>
#include <new>

#include "firmware_shims/driver.h"

namespace bascule {
namespace {

constexpr std::size_t kAlignment = 64;

enum class State { kDevice, kLeaving, kHost };

struct Record {
  bool is_in;
  bool in_host;        // else in the device
  std::uint64_t name;  // in the engine below
  media_engine_job job;
};

struct CompanionEngine : media_engine {
  void (*on_fallback)(media_engine_status why);
  bool falls_back;
  std::uint32_t device_formats;
  media_engine* device;
  media_engine* host;
  Record* records;
  std::uint32_t record_count;

  std::mutex mutex;  // guards all below, and the records
  std::condition_variable changed;
  State state;
  std::uint32_t waiting;  // threads that wait in the device
  std::uint64_t next_name;
  media_engine_statistics counts;         // of jobs, and of fallbacks
  media_engine_statistics device_counts;  // once it is closed
};

using Lock = std::unique_lock<std::mutex>;

CompanionEngine& engine_of(media_engine* engine) { return *static_cast<CompanionEngine*>(engine); }

std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

media_engine_config host_config(const media_engine_config& config) {
  media_engine_config host = config;
  host.driver = media_engine_host();
  host.units = config.host_units;
  host.options = nullptr;
  host.host_units = 0;
  host.fallback = 0;
  return host;
}

media_engine_config device_config(const media_engine_config& config) {
  media_engine_config device = config;
  device.host_units = 0;
  device.fallback = 0;
  return device;
}

struct Layout {
  std::size_t records, host, device, total;  // offsets
  std::size_t host_bytes, device_bytes;
};

Layout layout_of(const media_engine_config& config) {
  const media_engine_config host = host_config(config);
  const media_engine_config device = device_config(config);
  Layout layout;
  layout.host_bytes = media_engine_memory_needed(&host);
  layout.device_bytes = media_engine_memory_needed(&device);
  layout.records = rounded(sizeof(CompanionEngine));
  layout.host = layout.records + rounded(config.queue_depth * sizeof(Record));
  layout.device = layout.host + rounded(host.driver->memory_without_jpeg(&host));
  const std::size_t host_end = layout.host + layout.host_bytes;
  const std::size_t device_end = layout.device + layout.device_bytes;
  layout.total = host_end > device_end ? host_end : device_end;
  return layout;
}

media_engine_capabilities query() { return media_engine_query(media_engine_host()); }

std::size_t memory_needed(const media_engine_config* config) {
  const Layout layout = layout_of(*config);
  return layout.host_bytes == 0 || layout.device_bytes == 0 ? 0 : layout.total;
}

Record* record_named(CompanionEngine& self, std::uint64_t name) {
  for (std::uint32_t i = 0; i < self.record_count; ++i) {
    if (self.records[i].is_in && self.records[i].name == name) return &self.records[i];
  }
  return nullptr;
}

Record* record_of(CompanionEngine& self, std::uint64_t sequence) {
  for (std::uint32_t i = 0; i < self.record_count; ++i) {
    if (self.records[i].is_in && self.records[i].job.sequence == sequence) return &self.records[i];
  }
  return nullptr;
}

media_engine* engine_with(const CompanionEngine& self, const Record& record) {
  return record.in_host ? self.host : self.device;
}

// The device names what neither decodes.
bool is_for_host(const CompanionEngine& self, const media_engine_job& job) {
  if (self.state == State::kHost) return true;
  const media_engine_format format = media_engine_format_of(job.encoded, job.encoded_bytes);
  const std::uint32_t bit = 1U << static_cast<std::uint32_t>(format);
  return (media_engine_query(media_engine_host()).formats & bit) != 0 && (self.device_formats & bit) == 0;
}

// Under a new name.
media_engine_status submit_record(CompanionEngine& self, Record& record) {
  record.name = self.next_name++;
  record.in_host = is_for_host(self, record.job);
  media_engine_job job = record.job;
  job.sequence = record.name;
  return media_engine_submit(engine_with(self, record), &job);
}

bool gives_up(const CompanionEngine& self, media_engine_status status) {
  return self.falls_back && media_engine_is_bad_device(status) != 0;
}

// Returns when the host engine has taken over, whoever sees to it. The reset makes the device's waiting threads come
// back; only then is it closed.
void switch_over(CompanionEngine& self, Lock& lock, media_engine_status why) {
  if (self.state == State::kDevice) {
    self.state = State::kLeaving;
    (void)media_engine_reset(self.device);
    self.changed.wait(lock, [&] { return self.waiting == 0; });
    self.device_counts = media_engine_get_statistics(self.device);
    media_engine_close(self.device);
    self.device = nullptr;
    self.state = State::kHost;
    self.counts.fallbacks = 1;
    for (std::uint32_t i = 0; i < self.record_count; ++i) {
      if (!self.records[i].is_in || self.records[i].in_host) continue;
      (void)submit_record(self, self.records[i]);  // as deep a queue, and nothing in it
      ++self.counts.fallback_jobs;
    }
    if (self.on_fallback != nullptr) self.on_fallback(why);
    self.changed.notify_all();
  }
  self.changed.wait(lock, [&] { return self.state == State::kHost; });
}

Lock locked(CompanionEngine& self) {
  Lock lock(self.mutex);
  self.changed.wait(lock, [&] { return self.state != State::kLeaving; });
  return lock;
}

void close(media_engine* engine);

media_engine_status open(media_engine** engine, const media_engine_config* config) {
  const Layout layout = layout_of(*config);
  auto* const memory = static_cast<std::uint8_t*>(config->memory);
  auto* const self = new (memory) CompanionEngine{};
  self->driver = media_engine_companion();
  self->max_side = config->max_side;
  self->falls_back = config->fallback != 0;
  self->device_formats = media_engine_query(config->driver).formats;
  self->on_fallback = config->on_fallback;
  self->records = new (memory + layout.records) Record[config->queue_depth]{};
  self->record_count = config->queue_depth;
  media_engine_config host = host_config(*config);
  host.memory = memory + layout.host;
  host.memory_bytes = layout.host_bytes;
  media_engine_config device = device_config(*config);
  device.memory = memory + layout.device;
  device.memory_bytes = layout.device_bytes;
  media_engine_status status = media_engine_open(&self->host, &host);
  if (status == MEDIA_ENGINE_OK) status = media_engine_open(&self->device, &device);
  if (gives_up(*self, status)) {
    self->state = State::kHost;
    self->counts.fallbacks = 1;
    const bool is_old = status == MEDIA_ENGINE_DEVICE_BAD_FIRMWARE;
    ++self->device_counts.faults[is_old ? MEDIA_ENGINE_FAULT_WRONG_FIRMWARE : MEDIA_ENGINE_FAULT_DEVICE_GONE];
    if (self->on_fallback != nullptr) self->on_fallback(status);
    status = MEDIA_ENGINE_OK;
  }
  if (status != MEDIA_ENGINE_OK) {
    close(self);
    return status;
  }
  *engine = self;
  return MEDIA_ENGINE_OK;
}

// Room for one more job, or null.
Record* free_record(CompanionEngine& self) {
  for (std::uint32_t i = 0; i < self.record_count; ++i) {
    if (!self.records[i].is_in) return &self.records[i];
  }
  return nullptr;
}

media_engine_status submit(media_engine* engine, const media_engine_job* job) {
  CompanionEngine& self = engine_of(engine);
  for (;;) {
    Lock lock = locked(self);
    if (record_of(self, job->sequence) != nullptr) return MEDIA_ENGINE_INVALID;
    Record* const record = free_record(self);
    media_engine_status status = MEDIA_ENGINE_FULL;
    if (record != nullptr) {
      record->job = *job;
      status = submit_record(self, *record);
    }
    if (gives_up(self, status)) {
      switch_over(self, lock, status);
      continue;
    }
    if (status == MEDIA_ENGINE_FULL) ++self.counts.refused_full;
    if (status != MEDIA_ENGINE_OK) return status;
    record->is_in = true;
    ++self.counts.submitted;
    ++self.counts.in_flight;
    return MEDIA_ENGINE_OK;
  }
}

void count_out(CompanionEngine& self, Record& record, std::uint64_t* counter) {
  record.is_in = false;
  ++*counter;
  --self.counts.in_flight;
}

// Handles a completion of the engine below; true: it is for the caller. A completion under a name that is not known
// belongs to a job that was reset away, or went to the host engine.
bool is_for_caller(CompanionEngine& self, Lock& lock, media_engine_status status, media_engine_completion* completion) {
  if (gives_up(self, status)) {
    switch_over(self, lock, status);
    return false;
  }
  if (status != MEDIA_ENGINE_OK) return true;
  Record* const record = record_named(self, completion->sequence);
  if (record == nullptr) return false;
  const auto outcome = static_cast<media_engine_status>(completion->status);
  if (gives_up(self, outcome)) {  // it answers, but is not fit for use
    switch_over(self, lock, outcome);
    return false;
  }
  completion->sequence = record->job.sequence;
  if (media_engine_is_bad_picture(outcome) != 0) ++self.counts.bad_pictures;
  if (media_engine_is_bad_device(outcome) != 0) ++self.counts.device_errors;
  count_out(self, *record, &self.counts.completed);
  return true;
}

// With `ask`, a poll or a wait: the host alone where there is no device, else both. Host units may all be at work when
// they are asked first; so they are asked again where the device has nothing.
template <typename Ask>
media_engine_status ask_engines(CompanionEngine& self, media_engine* device, media_engine_completion* completion,
                                const Ask& ask) {
  if (device == nullptr) return ask(self.host);
  media_engine_status status = media_engine_poll(self.host, completion);
  if (status == MEDIA_ENGINE_EMPTY) status = ask(device);
  if (status == MEDIA_ENGINE_EMPTY) status = ask(self.host);
  return status;
}

// The same again where the device went meanwhile.
template <typename Ask>
media_engine_status ask_current(CompanionEngine& self, media_engine_completion* completion, const Ask& ask) {
  for (;;) {
    Lock lock = locked(self);
    const bool has_device = self.state == State::kDevice;
    media_engine* const device = has_device ? self.device : nullptr;
    if (has_device) ++self.waiting;
    lock.unlock();
    const media_engine_status status = ask_engines(self, device, completion, ask);
    lock.lock();
    if (has_device) {
      --self.waiting;
      self.changed.notify_all();
    }
    const bool is_settled = is_for_caller(self, lock, status, completion);
    const bool has_switched = has_device && self.state != State::kDevice;
    if (is_settled && (status == MEDIA_ENGINE_OK || !has_switched)) return status;
  }
}

media_engine_status poll(media_engine* engine, media_engine_completion* completion) {
  return ask_current(engine_of(engine), completion,
                     [&](media_engine* below) { return media_engine_poll(below, completion); });
}

media_engine_status wait(media_engine* engine, media_engine_completion* completion, std::uint64_t timeout_ns) {
  return ask_current(engine_of(engine), completion,
                     [&](media_engine* below) { return media_engine_wait(below, completion, timeout_ns); });
}

media_engine_status cancel(media_engine* engine, std::uint64_t sequence) {
  CompanionEngine& self = engine_of(engine);
  Lock lock = locked(self);
  Record* const record = record_of(self, sequence);
  if (record == nullptr) return MEDIA_ENGINE_NOT_FOUND;
  media_engine_status status = media_engine_cancel(engine_with(self, *record), record->name);
  if (gives_up(self, status)) {
    switch_over(self, lock, status);
    status = record->is_in && record->job.sequence == sequence ? media_engine_cancel(self.host, record->name)
                                                               : MEDIA_ENGINE_NOT_FOUND;
  }
  if (status == MEDIA_ENGINE_OK) count_out(self, *record, &self.counts.cancelled);
  return status == MEDIA_ENGINE_NOT_FOUND ? MEDIA_ENGINE_BUSY : status;  // its completion is on its way to a caller
}

media_engine_status reset(media_engine* engine) {
  CompanionEngine& self = engine_of(engine);
  Lock lock = locked(self);
  for (std::uint32_t i = 0; i < self.record_count; ++i) {
    if (self.records[i].is_in) count_out(self, self.records[i], &self.counts.reset_away);
  }
  (void)media_engine_reset(self.host);
  if (self.state == State::kHost) return MEDIA_ENGINE_OK;
  const media_engine_status status = media_engine_reset(self.device);
  if (gives_up(self, status)) switch_over(self, lock, status);
  return self.falls_back ? MEDIA_ENGINE_OK : status;
}

// The sum over both engines, except that jobs are counted here.
media_engine_statistics statistics(media_engine* engine) {
  CompanionEngine& self = engine_of(engine);
  const Lock lock = locked(self);
  const bool has_device = self.state == State::kDevice;
  const media_engine_statistics device = has_device ? media_engine_get_statistics(self.device) : self.device_counts;
  const media_engine_statistics host = media_engine_get_statistics(self.host);
  media_engine_statistics all = device;
  all.submitted = self.counts.submitted;
  all.completed = self.counts.completed;
  all.bad_pictures = self.counts.bad_pictures;
  all.device_errors = self.counts.device_errors;
  all.cancelled = self.counts.cancelled;
  all.reset_away = self.counts.reset_away;
  all.refused_full = self.counts.refused_full;
  all.in_flight = self.counts.in_flight;
  all.encoded_bytes += host.encoded_bytes;
  all.picture_pixels += host.picture_pixels;
  if (host.peak_picture_bytes > all.peak_picture_bytes) all.peak_picture_bytes = host.peak_picture_bytes;
  all.fallbacks = self.counts.fallbacks;
  all.fallback_jobs = self.counts.fallback_jobs;
  return all;
}

void close(media_engine* engine) {
  CompanionEngine& self = engine_of(engine);
  media_engine_close(self.device);
  media_engine_close(self.host);
  self.~CompanionEngine();
}

std::size_t memory_without_jpeg(const media_engine_config* config) { return memory_needed(config); }

constexpr media_engine_driver kDriver = {
    query, memory_needed, open, submit, poll, wait, cancel, reset, statistics, close, memory_without_jpeg, nullptr};

}  // namespace
}  // namespace bascule

extern "C" const media_engine_driver* media_engine_companion(void) { return &bascule::kDriver; }
