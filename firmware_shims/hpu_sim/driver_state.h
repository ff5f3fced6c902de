// SPDX-License-Identifier: Apache-2.0
// The driver's records of its jobs and its device. Inside the driver only.
//
// A job is free, pending (not in the ring: new, or to be submitted again), issued (in the ring or in a unit), or done
// (its completion has not been handed out). An issue is one entry of the submission ring: what was put there, and what
// has become of it, by which a completion that comes twice or late is told from a good one.
//
// One mutex guards all of it; nobody sleeps with it but in a reset of the device. The interrupt handler takes none.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "firmware_shims/driver.h"
#include "firmware_shims/hpu_sim/board.h"
#include "firmware_shims/hpu_sim/registers.h"

namespace bascule::hpu_sim {

// Sleeping until an interrupt or a time: a counter and a futex under it. No call allocates.
//
//   const std::uint32_t seen = event.count();
//   if (!condition()) event.wait_beyond(seen, ns);   // a change between the two lines is not lost
class DriverEvent {
 public:
  std::uint32_t count() const noexcept { return count_.load(); }
  void raise() noexcept;
  // Returns when count() is not `seen` any more, after `ns`, and sometimes for no reason.
  void wait_beyond(std::uint32_t seen, std::uint64_t ns) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::int32_t> sleepers_{0};
};

enum class JobState { kFree, kPending, kIssued, kDone };

struct Job {
  JobState state;
  media_engine_job job;
  std::uint64_t order;     // of submission
  std::uint32_t entry;     // while issued
  std::uint32_t attempts;  // that failed for this job's own sake
  bool is_taken;           // issued, and a unit has taken it
  std::uint64_t taken_ns;  // when that was first seen
  media_engine_completion completion;
};

enum class IssueState { kNone, kLive, kDone, kAbandoned };

struct Issue {
  IssueState state;
  std::uint32_t entry;
  std::uint32_t job;  // its place
};

struct Engine : media_engine {
  Device* device;
  media_engine_config config;
  bool polls;
  std::uint64_t timeout_ns;
  std::uint64_t picture_ns;  // what the device says that a picture takes

  DriverEvent event;                      // interrupts, and what waiting threads must know of
  std::atomic<std::uint32_t> interrupts;  // that have come

  std::mutex mutex;  // guards all below
  Job* jobs;         // config.queue_depth
  Issue* issues;     // ring_size
  hpu_sim_descriptor* submission_ring;
  hpu_sim_completion* completion_ring;
  std::uint32_t ring_size, completion_ring_size;
  std::uint32_t sq_tail, sq_head, cq_head;  // our counts; sq_head as last read
  std::uint32_t boot_count;                 // of the start that we know
  std::uint32_t explained_interrupts;       // for which a cause was found, or that were counted as spurious
  std::uint32_t resets_in_a_row;            // since the last good completion
  std::uint64_t next_order;
  std::uint64_t progress_ns;   // when the device was last given something, or seen to do something
  media_engine_status failed;  // OK, or why the device was given up
  media_engine_statistics statistics;
};

inline std::uint32_t read(Engine& self, std::uint32_t offset) { return read_register(self.device, offset); }
inline void write(Engine& self, std::uint32_t offset, std::uint32_t value) {
  write_register(self.device, offset, value);
}
inline void count(Engine& self, media_engine_fault fault) { ++self.statistics.faults[fault]; }

constexpr std::uint32_t kMostAttempts = 6;  // each waits twice as long as the one before

std::uint64_t now_ns() noexcept;

// driver_rings.cpp. All with the mutex held.
// Puts pending jobs into the ring, oldest first, as far as there is room, and rings the doorbell.
void issue_pending(Engine& self) noexcept;
// Takes what is in the completion ring. True: an entry could not be read, so some job will not hear.
bool take_completions(Engine& self) noexcept;
// The job's turn failed for its own sake, by a fault that has been counted: again, or, where that was the last time,
// done with DEVICE_FAILED.
void try_again(Engine& self, Job& job, media_engine_fault why) noexcept;

// driver_recovery.cpp. All with the mutex held.
// Brings up a device that has just been plugged in. OK, GONE or BAD_FIRMWARE.
media_engine_status bring_up(Engine& self) noexcept;
// All that the driver does between two calls: completions, time-outs, resets, new issues.
void service(Engine& self) noexcept;
// A reset of the device and a new start; jobs that were issued are pending again. False: it is gone.
bool recover(Engine& self) noexcept;
void give_up(Engine& self, media_engine_status why) noexcept;

}  // namespace bascule::hpu_sim
