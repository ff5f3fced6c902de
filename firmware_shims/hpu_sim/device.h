// SPDX-License-Identifier: Apache-2.0
// The model of the device: what stands behind the registers. Units are threads; all of its state but what a unit works
// on is guarded by one mutex. Nothing here knows of the driver.
//
// Transitions. A reset (asked for, or by surprise) and the end of the device come to pass when no unit works: the flag
// `stop` makes units give their pictures up, and the last one to come back settles the transition. So after it nothing
// of the host's memory is read or written.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#include "firmware_shims/codec/jpeg.h"
#include "firmware_shims/codec/prepare.h"
#include "firmware_shims/hpu_sim/board.h"
#include "firmware_shims/hpu_sim/faults.h"
#include "firmware_shims/hpu_sim/registers.h"

namespace bascule::hpu_sim {

using Clock = std::chrono::steady_clock;

// A descriptor that a unit has taken.
struct Task {
  hpu_sim_descriptor descriptor;
  std::uint32_t entry;
  std::uint64_t number;  // how many pictures the device has taken, this one included
  Clock::time_point rung_at;
};

struct Unit {
  codec::JpegReader reader;
  codec::Arena small_area;
  float* pixels = nullptr;          // device memory: a picture before it is transferred
  std::uint32_t unit_register = 0;  // HPU_SIM_UNIT
  Clock::time_point free_at;        // by its rate
  bool holds_late = false;
  hpu_sim_completion late;  // a completion that will be late
  std::thread thread;
};

enum class Transition { kNone, kSurpriseReset, kReset, kGone };  // the later ones win

// The state that a reset clears.
struct Registers {
  std::uint32_t status = 0;
  std::uint32_t sq_base_low = 0, sq_base_high = 0, sq_size = 0, sq_tail = 0, sq_head = 0;
  std::uint32_t cq_base_low = 0, cq_base_high = 0, cq_size = 0, cq_head = 0, cq_tail = 0;
  std::uint32_t cancelled = 0;
  std::uint32_t int_status = 0, int_enable = 0;
  std::uint32_t max_pixels = 0, max_scans = 0, max_scan_megapixels = 0, flags = 0;
};

class Device {
 public:
  static std::size_t bytes(const Board& board);
  Device(std::uint8_t* memory, const Board& board, const Options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  bool is_ready() const { return is_ready_; }

  std::uint32_t read(std::uint32_t offset);
  void write(std::uint32_t offset, std::uint32_t value);

 private:
  // device_registers.cpp; under the mutex
  std::uint32_t read_counted(std::uint32_t offset) const;
  void write_setup(std::uint32_t offset, std::uint32_t value);
  void control(std::uint32_t bits);
  void enable();
  void hear_doorbell(std::uint32_t tail);
  void cancel(std::uint32_t entry);
  void start_firmware();
  void begin(Transition transition);
  void settle();
  void count(hpu_sim_counter counter) { ++counters_[counter]; }
  bool injects(Fault fault, std::uint64_t number);

  // device_units.cpp
  void work(Unit& unit);
  bool can_take() const;
  bool take(Task* task, Unit& unit);
  void strike_at_taking(Task* task);
  hpu_sim_completion serve(Unit& unit, const Task& task);
  bool is_sound(const Task& task) const;
  void wait_for_pace(Unit& unit, const Task& task);
  void wait_for_transition();
  void decode(hpu_sim_completion* completion, Unit& unit, const Task& task);
  void transfer(hpu_sim_completion* completion, const Unit& unit, const Task& task);
  void complete(Unit& unit, const Task& task, hpu_sim_completion completion);
  void post(hpu_sim_completion completion, bool is_corrupted, std::uint64_t number);
  void post_late(std::uint64_t job);
  void raise(std::uint32_t cause);
  void overrun();

  const Board board_;
  const Options options_;
  codec::PreparationSettings settings_;
  Unit* units_;
  std::uint32_t unit_count_ = 0;
  codec::Arena large_area_;
  std::mutex large_area_mutex_;
  bool is_ready_ = false;

  std::atomic<bool> stop_{false};  // units give up what they do
  std::mutex mutex_;               // guards all below, and in a Unit the register and what is late
  std::condition_variable changed_;
  Registers registers_;
  std::uint32_t firmware_ = 0;
  std::uint32_t boot_count_ = 0;
  Transition transition_ = Transition::kNone;
  bool is_gone_ = false;
  bool is_ending_ = false;
  std::uint32_t working_ = 0;
  std::uint64_t pictures_ = 0;  // taken since power-up
  bool loses_doorbell_ = false;
  std::uint32_t storm_left_ = 0;
  bool reset_hangs_ = false;
  std::uint32_t counters_[HPU_SIM_COUNT_COUNTERS] = {};
  std::uint32_t injected_[kFaultKinds] = {};
  Clock::time_point rung_at_[HPU_SIM_MOST_ENTRIES];
  bool cancelled_[HPU_SIM_MOST_ENTRIES] = {};
};

}  // namespace bascule::hpu_sim
