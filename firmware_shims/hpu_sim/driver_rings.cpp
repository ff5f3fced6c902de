// SPDX-License-Identifier: Apache-2.0
// Descriptors out, completions in, each checked for what may have happened to it on the way.
#include <time.h>

#include <cstring>

#include "firmware_shims/hpu_sim/driver_state.h"

namespace bascule::hpu_sim {
namespace {

constexpr int kMostDoorbells = 8;

const std::uint32_t* words_of(const void* block) { return static_cast<const std::uint32_t*>(block); }
std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::uint64_t pixels_bytes(const media_engine_job& job) { return std::uint64_t{3} * job.side * job.side * 4; }

void write_descriptor(hpu_sim_descriptor* to, const media_engine_job& job, std::uint32_t entry) {
  hpu_sim_descriptor d = {};
  d.entry = entry;
  d.preparation = static_cast<std::uint8_t>(job.preparation);
  d.element = static_cast<std::uint8_t>(job.element);
  d.raw = static_cast<std::uint8_t>(job.raw);
  d.job = job.sequence;
  d.source = address_of(job.encoded);
  d.source_bytes = job.encoded_bytes;
  d.target = address_of(job.pixels);
  d.target_bytes = pixels_bytes(job);
  std::memcpy(d.mean, job.mean, sizeof d.mean);
  std::memcpy(d.std, job.std, sizeof d.std);
  d.side = job.side;
  d.shortest_edge = job.shortest_edge;
  d.levels = job.levels;
  d.size_divisor = job.size_divisor;
  d.interpolation = static_cast<std::uint8_t>(job.interpolation);
  d.augment = job.augment;
  std::memcpy(d.random_key, job.random_key, sizeof d.random_key);
  std::memcpy(d.random_counter, job.random_counter, sizeof d.random_counter);
  std::memcpy(d.crop_scale, job.crop_scale, sizeof d.crop_scale);
  std::memcpy(d.crop_ratio, job.crop_ratio, sizeof d.crop_ratio);
  d.checksum = hpu_sim_checksum(words_of(&d), sizeof d / 4 - 1);
  *to = d;
}

Job* oldest_pending(Engine& self) {
  Job* oldest = nullptr;
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    Job& job = self.jobs[i];
    if (job.state == JobState::kPending && (oldest == nullptr || job.order < oldest->order)) oldest = &job;
  }
  return oldest;
}

// Read back: a doorbell that was not heard would leave the device asleep. A device that has reset itself hears none;
// the next service sees that.
void ring_doorbell(Engine& self) {
  for (int i = 0; i < kMostDoorbells; ++i) {
    write(self, HPU_SIM_SQ_TAIL, self.sq_tail);
    if (read(self, HPU_SIM_SQ_TAIL) == self.sq_tail) return;
    const bool is_up = (read(self, HPU_SIM_STATUS) & HPU_SIM_STATUS_ENABLED) != 0;
    if (!is_up || read(self, HPU_SIM_BOOT_COUNT) != self.boot_count) return;
    count(self, MEDIA_ENGINE_FAULT_LOST_DOORBELL);
  }
}

void finish(Engine& self, Job& job, const hpu_sim_completion& from) {
  job.state = JobState::kDone;
  job.completion = {job.job.sequence, from.status, from.detail, from.width, from.height, from.orientation};
  media_engine_statistics& counts = self.statistics;
  if (from.status == MEDIA_ENGINE_OK) counts.picture_pixels += std::uint64_t{from.width} * from.height;
  const std::uint64_t taken_bytes = std::uint64_t{from.picture_kib} * 1024;
  if (taken_bytes > counts.peak_picture_bytes) counts.peak_picture_bytes = taken_bytes;
  self.resets_in_a_row = 0;
}

// All pixels that the device had, and no others, are where they should be.
bool arrived_whole(const Job& job, const hpu_sim_completion& completion) {
  const std::uint64_t bytes = pixels_bytes(job.job);
  return completion.written_bytes == bytes &&
         completion.pixels_checksum ==
             hpu_sim_checksum(words_of(job.job.pixels), static_cast<std::uint32_t>(bytes / 4));
}

void fail(Engine& self, Job& job, media_engine_fault why) {
  count(self, why);
  try_again(self, job, why);
}

void judge(Engine& self, Job& job, const hpu_sim_completion& completion) {
  if (completion.status == HPU_SIM_ERROR_DESCRIPTOR) return fail(self, job, MEDIA_ENGINE_FAULT_CORRUPTED_DESCRIPTOR);
  const bool is_verdict = completion.status == MEDIA_ENGINE_OK ||
                          media_engine_is_bad_picture(static_cast<media_engine_status>(completion.status)) != 0;
  if (!is_verdict) return fail(self, job, MEDIA_ENGINE_FAULT_DECODE_ERROR);
  if (completion.status == MEDIA_ENGINE_OK && !arrived_whole(job, completion))
    return fail(self, job, MEDIA_ENGINE_FAULT_SHORT_TRANSFER);
  finish(self, job, completion);
}

// False: the entry cannot be believed.
bool take_completion(Engine& self, const hpu_sim_completion& completion) {
  const bool is_sound = completion.checksum == hpu_sim_checksum(words_of(&completion), sizeof completion / 4 - 1) &&
                        completion.number == self.cq_head;
  Issue& issue = self.issues[completion.entry & (self.ring_size - 1)];
  if (!is_sound || self.sq_tail - completion.entry - 1 >= self.ring_size || issue.entry != completion.entry) {
    count(self, MEDIA_ENGINE_FAULT_CORRUPTED_COMPLETION);
    return false;
  }
  if (issue.state == IssueState::kDone) {
    count(self, MEDIA_ENGINE_FAULT_DUPLICATED_COMPLETION);
  } else if (issue.state != IssueState::kLive) {
    count(self, MEDIA_ENGINE_FAULT_LATE_COMPLETION);
  } else {
    issue.state = IssueState::kDone;
    judge(self, self.jobs[issue.job], completion);
  }
  return true;
}

}  // namespace

std::uint64_t now_ns() noexcept {
  ::timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void issue_pending(Engine& self) noexcept {
  bool has_news = false;
  for (;;) {
    if (self.sq_tail - self.sq_head >= self.ring_size) self.sq_head = read(self, HPU_SIM_SQ_HEAD);
    if (self.sq_tail - self.sq_head >= self.ring_size) break;
    Job* const job = oldest_pending(self);
    if (job == nullptr) break;
    const std::uint32_t index = self.sq_tail & (self.ring_size - 1);
    write_descriptor(&self.submission_ring[index], job->job, self.sq_tail);
    self.issues[index] = {IssueState::kLive, self.sq_tail, static_cast<std::uint32_t>(job - self.jobs)};
    job->state = JobState::kIssued;
    job->entry = self.sq_tail++;
    job->is_taken = false;
    has_news = true;
  }
  if (!has_news) return;
  self.progress_ns = now_ns();
  ring_doorbell(self);
}

bool take_completions(Engine& self) noexcept {
  bool is_torn = false;
  const std::uint32_t tail = read(self, HPU_SIM_CQ_TAIL);
  if (tail - self.cq_head > self.completion_ring_size) return false;  // of a device that has reset itself
  if (tail == self.cq_head) return false;
  for (; self.cq_head != tail; ++self.cq_head) {
    const hpu_sim_completion entry = self.completion_ring[self.cq_head & (self.completion_ring_size - 1)];
    is_torn = !take_completion(self, entry) || is_torn;
    ++self.explained_interrupts;
  }
  write(self, HPU_SIM_CQ_HEAD, self.cq_head);
  self.progress_ns = now_ns();
  return is_torn;
}

void try_again(Engine& self, Job& job, media_engine_fault why) noexcept {
  Issue& issue = self.issues[job.entry & (self.ring_size - 1)];
  if (issue.entry == job.entry && issue.state == IssueState::kLive) issue.state = IssueState::kAbandoned;
  if (++job.attempts < kMostAttempts) {
    ++self.statistics.retries;
    job.state = JobState::kPending;
    return;
  }
  hpu_sim_completion failure = {};
  failure.status = MEDIA_ENGINE_DEVICE_FAILED;
  failure.detail = static_cast<std::uint32_t>(why);
  const std::uint32_t resets = self.resets_in_a_row;
  finish(self, job, failure);
  self.resets_in_a_row = resets;
  self.event.raise();
}

}  // namespace bascule::hpu_sim
