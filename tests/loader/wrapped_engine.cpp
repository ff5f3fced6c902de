// SPDX-License-Identifier: Apache-2.0
#include "tests/loader/wrapped_engine.h"

#include <atomic>
#include <climits>
#include <mutex>
#include <new>

#include "firmware_shims/driver.h"

namespace bascule::test {
namespace {

constexpr std::size_t kMostJobs = 64;
std::atomic<int> jobs_until_gone{INT_MAX};

struct Wrapped : media_engine {
  media_engine* host = nullptr;
  std::mutex mutex;  // guards all below
  media_engine_job jobs[kMostJobs];
  std::size_t count = 0;
  std::size_t most = 0;
  int submitted = 0;
};

constexpr std::size_t kWrappedBytes = (sizeof(Wrapped) + 63) / 64 * 64;

Wrapped& wrapped(media_engine* engine) { return *static_cast<Wrapped*>(engine); }

media_engine_config host_config(const media_engine_config& config) {
  media_engine_config inner = config;
  inner.driver = media_engine_host();
  inner.memory = static_cast<unsigned char*>(config.memory) + kWrappedBytes;
  inner.memory_bytes = config.memory_bytes - kWrappedBytes;
  inner.units = 4;
  return inner;
}

media_engine_capabilities query() {
  media_engine_capabilities can = media_engine_query(media_engine_host());
  can.name = "wrapped";
  can.works_in_poll = 0;
  can.max_queue_depth = kMostJobs;
  return can;
}

std::size_t memory_needed(const media_engine_config* config) {
  media_engine_config inner = *config;
  inner.driver = media_engine_host();
  inner.units = 4;
  return kWrappedBytes + media_engine_memory_needed(&inner);
}

media_engine_status open(media_engine** engine, const media_engine_config* config) {
  auto* const self = new (config->memory) Wrapped;
  self->driver = config->driver;
  self->max_side = config->max_side;
  self->most = config->queue_depth;
  const media_engine_config inner = host_config(*config);
  *engine = self;
  return media_engine_open(&self->host, &inner);
}

media_engine_status submit(media_engine* engine, const media_engine_job* job) {
  Wrapped& self = wrapped(engine);
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (self.count == self.most) return MEDIA_ENGINE_FULL;
  self.jobs[self.count++] = *job;
  ++self.submitted;
  return MEDIA_ENGINE_OK;
}

media_engine_status wait(media_engine* engine, media_engine_completion* completion, std::uint64_t timeout_ns) {
  Wrapped& self = wrapped(engine);
  {
    const std::lock_guard<std::mutex> lock(self.mutex);
    if (self.submitted > jobs_until_gone.load()) return MEDIA_ENGINE_DEVICE_GONE;
    if (self.count == 0) return MEDIA_ENGINE_EMPTY;
    const media_engine_status status = media_engine_submit(self.host, &self.jobs[self.count - 1]);
    if (status == MEDIA_ENGINE_OK) --self.count;
  }
  return media_engine_wait(self.host, completion, timeout_ns);
}

media_engine_status poll(media_engine* engine, media_engine_completion* completion) {
  return wait(engine, completion, 0);
}

media_engine_status cancel(media_engine*, std::uint64_t) { return MEDIA_ENGINE_NOT_FOUND; }

media_engine_status reset(media_engine* engine) {
  Wrapped& self = wrapped(engine);
  {
    const std::lock_guard<std::mutex> lock(self.mutex);
    self.count = 0;
  }
  return media_engine_reset(self.host);
}

media_engine_statistics statistics(media_engine* engine) { return media_engine_get_statistics(wrapped(engine).host); }

void close(media_engine* engine) {
  media_engine_close(wrapped(engine).host);
  wrapped(engine).~Wrapped();
}

constexpr media_engine_driver kWrappedDriver = {query,  memory_needed, open,       submit, poll,          wait,
                                                cancel, reset,         statistics, close,  memory_needed, nullptr};

}  // namespace

const media_engine_driver* reordering_engine() { return vanishing_engine(INT_MAX); }

const media_engine_driver* vanishing_engine(int jobs) {
  jobs_until_gone.store(jobs);
  return &kWrappedDriver;
}

}  // namespace bascule::test
