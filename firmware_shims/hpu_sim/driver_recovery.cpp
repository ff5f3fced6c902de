// SPDX-License-Identifier: Apache-2.0
// The watchdog. It looks for these, in this order, at every service:
// - every register reads as all ones, or resets do not help: the device is gone, and every call says so from then on;
// - another boot count: the device has reset itself. Started anew, all issued jobs submitted again;
// - an error bit in STATUS: completions were dropped, nobody knows which. Reset;
// - a completion that cannot be read: jobs that units have let go of, without a completion, are submitted again;
// - a job that was taken long ago. Held by a unit: the unit stalls, reset. Held by none: its completion is lost, again.
// A job is given twice the time at each of its attempts, so that a slow machine is not taken for a broken device.
#include <time.h>

#include "firmware_shims/hpu_sim/driver_state.h"

namespace bascule::hpu_sim {
namespace {

constexpr std::uint32_t kMostResetsInARow = 16;
constexpr std::uint64_t kResetTurnNs = 100'000;  // between two looks at a device that resets
constexpr std::uint64_t kMillisecond = 1'000'000;

bool is_there(Engine& self) { return read(self, HPU_SIM_ID) == HPU_SIM_ID_VALUE; }

// Until the firmware has started. False: not in time.
bool wait_until_ready(Engine& self) {
  const std::uint64_t until_ns = now_ns() + 4 * self.timeout_ns;
  while ((read(self, HPU_SIM_STATUS) & HPU_SIM_STATUS_READY) == 0 || !is_there(self)) {
    if (!is_there(self) || now_ns() >= until_ns) return false;
    const ::timespec turn = {0, static_cast<long>(kResetTurnNs)};
    ::nanosleep(&turn, nullptr);
  }
  return true;
}

std::uint32_t low_half(const void* pointer) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer) & 0xFFFFFFFFU);
}
std::uint32_t high_half(const void* pointer) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer) >> 32);
}

// Registers and rings of a device that is ready. False: it does not take them, or has reset itself meanwhile.
bool program(Engine& self) {
  self.sq_tail = self.sq_head = self.cq_head = 0;
  for (std::uint32_t i = 0; i < self.ring_size; ++i) self.issues[i] = {IssueState::kNone, i - self.ring_size, 0};
  self.boot_count = read(self, HPU_SIM_BOOT_COUNT);
  self.picture_ns = read(self, HPU_SIM_PICTURE_MS) * kMillisecond;
  write(self, HPU_SIM_SQ_BASE_LOW, low_half(self.submission_ring));
  write(self, HPU_SIM_SQ_BASE_HIGH, high_half(self.submission_ring));
  write(self, HPU_SIM_SQ_SIZE, self.ring_size);
  write(self, HPU_SIM_CQ_BASE_LOW, low_half(self.completion_ring));
  write(self, HPU_SIM_CQ_BASE_HIGH, high_half(self.completion_ring));
  write(self, HPU_SIM_CQ_SIZE, self.completion_ring_size);
  write(self, HPU_SIM_MAX_PIXELS, self.config.max_pixels);
  write(self, HPU_SIM_MAX_SCANS, self.config.max_scans);
  write(self, HPU_SIM_MAX_SCAN_MEGAPIXELS, self.config.max_scan_megapixels);
  write(self, HPU_SIM_FLAGS, self.config.scale_in_decoder != 0 ? HPU_SIM_FLAG_SCALE_IN_DECODER : 0);
  self.explained_interrupts = self.interrupts.load();
  write(self, HPU_SIM_INT_ENABLE, self.polls ? 0 : HPU_SIM_INT_COMPLETION | HPU_SIM_INT_ERROR);
  write(self, HPU_SIM_CONTROL, HPU_SIM_CONTROL_ENABLE);
  self.progress_ns = now_ns();
  const std::uint32_t status = read(self, HPU_SIM_STATUS);
  return (status & HPU_SIM_STATUS_ENABLED) != 0 && read(self, HPU_SIM_BOOT_COUNT) == self.boot_count;
}

bool knows_firmware(Engine& self) { return read(self, HPU_SIM_FIRMWARE) >> 16 == HPU_SIM_FIRMWARE_MAJOR; }

void make_issued_pending(Engine& self) {
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    Job& job = self.jobs[i];
    if (job.state != JobState::kIssued) continue;
    job.state = JobState::kPending;
    ++self.statistics.retries;
  }
}

// Interrupts that nobody can explain. Those that come while this is worked out are left for the next time.
void explain_interrupts(Engine& self, std::uint32_t seen) {
  if (self.polls) return;
  const auto unexplained = static_cast<std::int32_t>(seen - self.explained_interrupts);
  if (unexplained <= 0) return;
  self.statistics.faults[MEDIA_ENGINE_FAULT_SPURIOUS_INTERRUPT] += static_cast<std::uint64_t>(unexplained);
  self.explained_interrupts = seen;
}

bool is_held(Engine& self, std::uint32_t entry) {
  for (std::uint32_t u = 0; u < self.config.units; ++u) {
    if (read(self, HPU_SIM_UNIT + 4 * u) == (HPU_SIM_UNIT_BUSY | entry)) return true;
  }
  return false;
}

void note_taken(Engine& self, std::uint64_t now) {
  const std::uint32_t head = read(self, HPU_SIM_SQ_HEAD);
  if (self.sq_tail - head > self.ring_size) return;  // of a device that has reset itself
  if (head != self.sq_head) self.progress_ns = now;
  self.sq_head = head;
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    Job& job = self.jobs[i];
    if (job.state != JobState::kIssued || job.is_taken || self.sq_tail - job.entry <= self.sq_tail - head) continue;
    job.is_taken = true;
    job.taken_ns = now;
  }
}

std::uint64_t allowed_ns(const Engine& self, const Job& job) {
  return (2 * self.picture_ns + self.timeout_ns) << job.attempts;
}

// Jobs that no unit holds and of which nothing will be heard. A unit lets go only after its completion is in the ring:
// so the units are asked first, and the ring is looked at again after that.
void try_lost_again(Engine& self, media_engine_fault why, std::uint64_t now, bool only_overdue) {
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    Job& job = self.jobs[i];
    if (job.state != JobState::kIssued || !job.is_taken) continue;
    if (only_overdue && now - job.taken_ns < allowed_ns(self, job)) continue;
    if (is_held(self, job.entry)) continue;
    (void)take_completions(self);
    if (job.state != JobState::kIssued) continue;
    if (only_overdue) count(self, why);
    try_again(self, job, why);
  }
}

// A job that a unit holds for too long; or null.
Job* overdue_in_unit(Engine& self, std::uint64_t now) {
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    Job& job = self.jobs[i];
    const bool is_overdue =
        job.state == JobState::kIssued && job.is_taken && now - job.taken_ns >= allowed_ns(self, job);
    if (is_overdue && is_held(self, job.entry)) return &job;
  }
  return nullptr;
}

// Nothing is taken although there is something to take, and nothing is being done.
bool is_asleep(Engine& self, std::uint64_t now) {
  bool has_untaken = false;
  for (std::uint32_t i = 0; i < self.config.queue_depth; ++i) {
    if (self.jobs[i].state != JobState::kIssued) continue;
    if (self.jobs[i].is_taken) return false;
    has_untaken = true;
  }
  return has_untaken && now - self.progress_ns >= 2 * self.picture_ns + self.timeout_ns;
}

void look_at_time(Engine& self) {
  const std::uint64_t now = now_ns();
  note_taken(self, now);
  try_lost_again(self, MEDIA_ENGINE_FAULT_LOST_COMPLETION, now, true);
  Job* const stalled = overdue_in_unit(self, now);
  if (stalled == nullptr && !is_asleep(self, now)) return;
  count(self, MEDIA_ENGINE_FAULT_STALLED_UNIT);
  if (stalled != nullptr) try_again(self, *stalled, MEDIA_ENGINE_FAULT_STALLED_UNIT);
  (void)recover(self);
}

// True: the device is up, and of the start that we know.
bool look_at_health(Engine& self) {
  const std::uint32_t boot_count = read(self, HPU_SIM_BOOT_COUNT);
  if (boot_count == self.boot_count) return true;
  if (!is_there(self)) {
    give_up(self, MEDIA_ENGINE_DEVICE_GONE);
    return false;
  }
  count(self, self.resets_in_a_row > 0 ? MEDIA_ENGINE_FAULT_RESET_STORM : MEDIA_ENGINE_FAULT_SURPRISE_RESET);
  return recover(self);
}

}  // namespace

media_engine_status bring_up(Engine& self) noexcept {
  if (!wait_until_ready(self)) return MEDIA_ENGINE_DEVICE_GONE;
  if (!knows_firmware(self)) return MEDIA_ENGINE_DEVICE_BAD_FIRMWARE;
  return program(self) ? MEDIA_ENGINE_OK : MEDIA_ENGINE_DEVICE_GONE;
}

void give_up(Engine& self, media_engine_status why) noexcept {
  if (self.failed != MEDIA_ENGINE_OK) return;
  self.failed = why;
  count(self, MEDIA_ENGINE_FAULT_DEVICE_GONE);
  self.event.raise();
}

bool recover(Engine& self) noexcept {
  bool knows_it = true;
  while (self.failed == MEDIA_ENGINE_OK) {
    if (++self.resets_in_a_row > kMostResetsInARow || !is_there(self)) {
      give_up(self, knows_it ? MEDIA_ENGINE_DEVICE_GONE : MEDIA_ENGINE_DEVICE_BAD_FIRMWARE);
      break;
    }
    ++self.statistics.device_resets;
    write(self, HPU_SIM_CONTROL, HPU_SIM_CONTROL_RESET);
    if (!wait_until_ready(self)) {
      if (is_there(self)) count(self, MEDIA_ENGINE_FAULT_HUNG_RESET);
      continue;
    }
    knows_it = knows_firmware(self);
    if (!knows_it) {
      count(self, MEDIA_ENGINE_FAULT_WRONG_FIRMWARE);
      continue;
    }
    make_issued_pending(self);
    if (program(self)) return true;
    count(self, MEDIA_ENGINE_FAULT_RESET_STORM);
  }
  return false;
}

void service(Engine& self) noexcept {
  if (self.failed != MEDIA_ENGINE_OK) return;
  const std::uint32_t interrupts = self.interrupts.load();
  const std::uint32_t causes = read(self, HPU_SIM_INT_STATUS);
  if (causes != 0) write(self, HPU_SIM_INT_STATUS, causes);
  const bool is_torn = take_completions(self);
  if (!look_at_health(self)) return;
  if ((causes & HPU_SIM_INT_ERROR) != 0 && (read(self, HPU_SIM_STATUS) & HPU_SIM_STATUS_OVERRUN) != 0) {
    count(self, MEDIA_ENGINE_FAULT_QUEUE_OVERRUN);
    if (!recover(self)) return;
  } else if (is_torn) {
    const std::uint64_t now = now_ns();
    note_taken(self, now);
    try_lost_again(self, MEDIA_ENGINE_FAULT_CORRUPTED_COMPLETION, now, false);
  } else {
    explain_interrupts(self, interrupts);
  }
  look_at_time(self);
  if (self.failed == MEDIA_ENGINE_OK) issue_pending(self);
}

}  // namespace bascule::hpu_sim
