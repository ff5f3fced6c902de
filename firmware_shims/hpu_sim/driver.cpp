// SPDX-License-Identifier: Apache-2.0
// The calls of media_engine.h. A thread that waits does the driver's work; the interrupt handler only wakes it.
//
// Memory: engine | jobs | issues | submission ring | completion ring | device.
#include "firmware_shims/hpu_sim/driver.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "firmware_shims/hpu_sim/driver_state.h"

namespace bascule::hpu_sim {
namespace {

constexpr std::uint32_t kMaxQueueDepth = 4096;
constexpr std::uint32_t kMaxSide = 4096;
constexpr std::uint32_t kLeastRing = 64;
constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kDefaultTimeoutMs = 2000;
constexpr std::uint64_t kCheckNs = 10 * kMillisecond;  // between two looks at a device that says nothing
constexpr std::uint64_t kPollNs = kMillisecond / 10;   // the same where interrupts are off

Engine& engine_of(media_engine* engine) { return *static_cast<Engine*>(engine); }

std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Room for every job twice: what is submitted again, and a history by which late completions are told.
std::uint32_t ring_size_of(const media_engine_config& config) {
  std::uint32_t size = kLeastRing;
  while (size < 2 * config.queue_depth) size *= 2;
  return size;
}

struct Layout {
  std::size_t jobs, issues, submission_ring, completion_ring, device, total;  // offsets
};

Board board_of(const media_engine_config& config) {
  Board board;
  board.units = config.units;
  board.max_side = config.max_side;
  board.picture_bytes = config.picture_bytes;
  board.options = config.options;
  return board;
}

Layout layout_of(const media_engine_config& config) {
  const std::size_t ring = ring_size_of(config);
  Layout layout;
  layout.jobs = rounded(sizeof(Engine));
  layout.issues = layout.jobs + rounded(config.queue_depth * sizeof(Job));
  layout.submission_ring = layout.issues + rounded(ring * sizeof(Issue));
  layout.completion_ring = layout.submission_ring + rounded(ring * sizeof(hpu_sim_descriptor));
  layout.device = layout.completion_ring + rounded(ring * sizeof(hpu_sim_completion));
  layout.total = layout.device + rounded(device_bytes(board_of(config)));
  return layout;
}

media_engine_capabilities query() {
  media_engine_capabilities can = {};
  can.api_version = MEDIA_ENGINE_API_VERSION;
  can.firmware_version = HPU_SIM_FIRMWARE_MAJOR << 16;
  can.name = "hpu_sim";
  can.preparations = 1U << MEDIA_ENGINE_TRAINING | 1U << MEDIA_ENGINE_PROCESSOR | 1U << MEDIA_ENGINE_SQUARE_PROCESSOR;
  can.elements = 1U << MEDIA_ENGINE_FLOAT32;
  can.formats = 1U << MEDIA_ENGINE_FORMAT_JPEG;
  can.max_units = HPU_SIM_MOST_UNITS;
  can.max_queue_depth = kMaxQueueDepth;
  can.max_side = kMaxSide;
  return can;
}

// 0: so much that it cannot be counted.
std::size_t memory_needed(const media_engine_config* config) {
  if (config->picture_bytes > SIZE_MAX / 2) return 0;
  return layout_of(*config).total;
}

std::size_t memory_without_jpeg(const media_engine_config* config) { return memory_needed(config); }

// The number that one of the options gives to `name`, which ends in '='.
std::uint64_t option_of(const char* options, const char* name, std::uint64_t otherwise) {
  const std::size_t length = std::strlen(name);
  for (const char* at = options; at != nullptr && *at != '\0'; at += std::strcspn(at, " ")) {
    at += std::strspn(at, " ");
    if (std::strncmp(at, name, length) == 0) otherwise = std::strtoull(at + length, nullptr, 10);
  }
  return otherwise;
}

// In a thread of the device.
void on_interrupt(void* context) {
  Engine& self = *static_cast<Engine*>(context);
  ++self.interrupts;
  self.event.raise();
}

Engine* lay_out(const media_engine_config& config) {
  const Layout layout = layout_of(config);
  auto* const memory = static_cast<std::uint8_t*>(config.memory);
  auto* const self = new (memory) Engine{};
  self->driver = media_engine_hpu_sim();
  self->max_side = config.max_side;
  self->config = config;
  self->polls = option_of(config.options, "polling=", 0) != 0;
  self->timeout_ns = option_of(config.options, "timeout_ms=", kDefaultTimeoutMs) * kMillisecond;
  self->ring_size = self->completion_ring_size = ring_size_of(config);
  self->jobs = new (memory + layout.jobs) Job[config.queue_depth]{};
  self->issues = new (memory + layout.issues) Issue[self->ring_size]{};
  self->submission_ring = new (memory + layout.submission_ring) hpu_sim_descriptor[self->ring_size]{};
  self->completion_ring = new (memory + layout.completion_ring) hpu_sim_completion[self->ring_size]{};
  Board board = board_of(config);
  board.interrupt = on_interrupt;
  board.context = self;
  self->device = plug_in(memory + layout.device, board);
  return self;
}

media_engine_status open(media_engine** engine, const media_engine_config* config) {
  for (const char* at = config->options; at != nullptr && *at != '\0';) {
    char word[128] = {};
    at += std::strspn(at, " ");
    const std::size_t length = std::strcspn(at, " ");
    if (length >= sizeof word) return MEDIA_ENGINE_INVALID;
    std::memcpy(word, at, length);
    if (length > 0 && option_problem(word) != nullptr) return MEDIA_ENGINE_INVALID;
    at += length;
  }
  Engine* const self = lay_out(*config);
  media_engine_status status = MEDIA_ENGINE_NO_MEMORY;
  if (self->device != nullptr) {
    const std::lock_guard<std::mutex> lock(self->mutex);
    status = bring_up(*self);
  }
  if (status == MEDIA_ENGINE_OK) {
    *engine = self;
    return MEDIA_ENGINE_OK;
  }
  if (self->device != nullptr) unplug(self->device);
  self->~Engine();
  return status;
}

Job* find_job(Engine& self, std::uint64_t sequence) {
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    if (self.jobs[i].state != JobState::kFree && self.jobs[i].job.sequence == sequence) return &self.jobs[i];
  }
  return nullptr;
}

media_engine_status submit(media_engine* engine, const media_engine_job* job) {
  Engine& self = engine_of(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (self.failed != MEDIA_ENGINE_OK) return self.failed;
  if (find_job(self, job->sequence) != nullptr) return MEDIA_ENGINE_INVALID;
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    if (self.jobs[i].state != JobState::kFree) continue;
    self.jobs[i] = Job{};
    self.jobs[i].state = JobState::kPending;
    self.jobs[i].job = *job;
    self.jobs[i].order = self.next_order++;
    ++self.statistics.submitted;
    ++self.statistics.in_flight;
    issue_pending(self);
    return MEDIA_ENGINE_OK;
  }
  ++self.statistics.refused_full;
  return MEDIA_ENGINE_FULL;
}

// The oldest job that is done.
bool hand_out(Engine& self, media_engine_completion* completion) {
  Job* oldest = nullptr;
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    Job& job = self.jobs[i];
    if (job.state == JobState::kDone && (oldest == nullptr || job.order < oldest->order)) oldest = &job;
  }
  if (oldest == nullptr) return false;
  *completion = oldest->completion;
  oldest->state = JobState::kFree;
  media_engine_statistics& counts = self.statistics;
  const auto status = static_cast<media_engine_status>(completion->status);
  ++counts.completed;
  --counts.in_flight;
  counts.encoded_bytes += oldest->job.encoded_bytes;
  if (media_engine_is_bad_picture(status) != 0) ++counts.bad_pictures;
  if (media_engine_is_bad_device(status) != 0) ++counts.device_errors;
  return true;
}

// OK, EMPTY, or TIMED_OUT for "not yet".
media_engine_status look(Engine& self, media_engine_completion* completion) {
  service(self);
  if (self.failed != MEDIA_ENGINE_OK) return self.failed;
  if (hand_out(self, completion)) return MEDIA_ENGINE_OK;
  return self.statistics.in_flight == 0 ? MEDIA_ENGINE_EMPTY : MEDIA_ENGINE_TIMED_OUT;
}

media_engine_status poll(media_engine* engine, media_engine_completion* completion) {
  Engine& self = engine_of(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  const media_engine_status status = look(self, completion);
  return status == MEDIA_ENGINE_TIMED_OUT ? MEDIA_ENGINE_EMPTY : status;
}

media_engine_status wait(media_engine* engine, media_engine_completion* completion, std::uint64_t timeout_ns) {
  Engine& self = engine_of(engine);
  const std::uint64_t begin_ns = now_ns();
  const std::uint64_t turn_ns = self.polls ? kPollNs : kCheckNs;
  std::unique_lock<std::mutex> lock(self.mutex);
  for (;;) {
    const std::uint32_t seen = self.event.count();
    const media_engine_status status = look(self, completion);
    if (status != MEDIA_ENGINE_TIMED_OUT) return status;
    const std::uint64_t waited_ns = now_ns() - begin_ns;
    if (waited_ns >= timeout_ns) return MEDIA_ENGINE_TIMED_OUT;
    const std::uint64_t left_ns = timeout_ns - waited_ns;
    lock.unlock();
    self.event.wait_beyond(seen, left_ns < turn_ns ? left_ns : turn_ns);
    lock.lock();
  }
}

void free_job(Engine& self, Job& job) {
  job.state = JobState::kFree;
  --self.statistics.in_flight;
}

media_engine_status cancel(media_engine* engine, std::uint64_t sequence) {
  Engine& self = engine_of(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (self.failed != MEDIA_ENGINE_OK) return self.failed;
  Job* const job = find_job(self, sequence);
  if (job == nullptr) return MEDIA_ENGINE_NOT_FOUND;
  if (job->state == JobState::kDone) return MEDIA_ENGINE_BUSY;
  if (job->state == JobState::kIssued) {
    write(self, HPU_SIM_CANCEL, job->entry);
    if (read(self, HPU_SIM_CANCEL) != 1) return MEDIA_ENGINE_BUSY;
    self.issues[job->entry & (self.ring_size - 1)].state = IssueState::kAbandoned;
  }
  free_job(self, *job);
  ++self.statistics.cancelled;
  self.event.raise();
  return MEDIA_ENGINE_OK;
}

// The device is reset where it may still be at work for somebody; that is none of the resets that are counted.
media_engine_status reset(media_engine* engine) {
  Engine& self = engine_of(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  bool is_at_work = false;
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    is_at_work = is_at_work || self.jobs[i].state == JobState::kIssued;
  }
  if (is_at_work && self.failed == MEDIA_ENGINE_OK) {
    const media_engine_statistics before = self.statistics;
    const bool is_up = recover(self);
    self.statistics.retries = before.retries;
    if (is_up && self.statistics.device_resets > before.device_resets) --self.statistics.device_resets;
    self.resets_in_a_row = 0;
  }
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    if (self.jobs[i].state == JobState::kFree) continue;
    free_job(self, self.jobs[i]);
    ++self.statistics.reset_away;
  }
  self.event.raise();
  return self.failed;
}

media_engine_statistics statistics(media_engine* engine) {
  Engine& self = engine_of(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  service(self);
  return self.statistics;
}

void close(media_engine* engine) {
  Engine& self = engine_of(engine);
  unplug(self.device);
  self.~Engine();
}

constexpr media_engine_driver kDriver = {
    query, memory_needed,       open,          submit, poll, wait, cancel, reset, statistics,
    close, memory_without_jpeg, option_problem};

}  // namespace

Device* device_of(media_engine* engine) { return engine_of(engine).device; }

}  // namespace bascule::hpu_sim

extern "C" const media_engine_driver* media_engine_hpu_sim(void) { return &bascule::hpu_sim::kDriver; }
