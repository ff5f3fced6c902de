// SPDX-License-Identifier: Apache-2.0
// The effect of reading or writing a register, and the resets.
#include <cmath>

#include "firmware_shims/hpu_sim/device.h"

namespace bascule::hpu_sim {
namespace {

constexpr std::uint32_t kFirmwareVersion = HPU_SIM_FIRMWARE_MAJOR << 16 | 2;
constexpr std::uint32_t kOtherFirmwareVersion = (HPU_SIM_FIRMWARE_MAJOR + 1) << 16;
constexpr std::uint32_t kStormResets = 3;

bool is_ring(std::uint32_t low, std::uint32_t high, std::uint32_t size) {
  const bool has_base = (low != 0 || high != 0) && low % 64 == 0;
  return has_base && size > 0 && size <= HPU_SIM_MOST_ENTRIES && (size & (size - 1)) == 0;
}

std::uint32_t picture_ms(const Options& options) {
  const double pace_ms = options.rate > 0.0 ? 1000.0 / options.rate : 0.0;
  return static_cast<std::uint32_t>(std::fmin(std::ceil(options.latency_ms + pace_ms), 1e9));
}

}  // namespace

std::uint32_t Device::read(std::uint32_t offset) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_gone_) return HPU_SIM_NOT_THERE;
  const Registers& r = registers_;
  switch (offset) {
    case HPU_SIM_ID: return HPU_SIM_ID_VALUE;
    case HPU_SIM_FIRMWARE: return firmware_;
    case HPU_SIM_BOOT_COUNT: return boot_count_;
    case HPU_SIM_STATUS: return transition_ == Transition::kNone ? r.status : 0;
    case HPU_SIM_UNITS: return unit_count_;
    case HPU_SIM_PICTURE_MS: return picture_ms(options_);
    case HPU_SIM_SQ_BASE_LOW: return r.sq_base_low;
    case HPU_SIM_SQ_BASE_HIGH: return r.sq_base_high;
    case HPU_SIM_SQ_SIZE: return r.sq_size;
    case HPU_SIM_SQ_TAIL: return r.sq_tail;
    case HPU_SIM_SQ_HEAD: return r.sq_head;
    case HPU_SIM_CANCEL: return r.cancelled;
    case HPU_SIM_CQ_BASE_LOW: return r.cq_base_low;
    case HPU_SIM_CQ_BASE_HIGH: return r.cq_base_high;
    case HPU_SIM_CQ_SIZE: return r.cq_size;
    case HPU_SIM_CQ_HEAD: return r.cq_head;
    case HPU_SIM_CQ_TAIL: return r.cq_tail;
    case HPU_SIM_INT_STATUS: return r.int_status;
    case HPU_SIM_INT_ENABLE: return r.int_enable;
    case HPU_SIM_MAX_PIXELS: return r.max_pixels;
    case HPU_SIM_MAX_SCANS: return r.max_scans;
    case HPU_SIM_MAX_SCAN_MEGAPIXELS: return r.max_scan_megapixels;
    case HPU_SIM_FLAGS: return r.flags;
    default: return read_counted(offset);
  }
}

std::uint32_t Device::read_counted(std::uint32_t offset) const {
  const auto is_in = [&](std::uint32_t begin, std::uint32_t count) {
    return offset >= begin && offset < begin + 4 * count && offset % 4 == 0;
  };
  if (is_in(HPU_SIM_UNIT, unit_count_)) return units_[(offset - HPU_SIM_UNIT) / 4].unit_register;
  if (is_in(HPU_SIM_COUNTERS, HPU_SIM_COUNT_COUNTERS)) return counters_[(offset - HPU_SIM_COUNTERS) / 4];
  if (is_in(HPU_SIM_INJECTED, kFaultKinds)) return injected_[(offset - HPU_SIM_INJECTED) / 4];
  return 0;
}

void Device::write(std::uint32_t offset, std::uint32_t value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_gone_) return;
  switch (offset) {
    case HPU_SIM_CONTROL: return control(value);
    case HPU_SIM_SQ_TAIL: return hear_doorbell(value);
    case HPU_SIM_CQ_HEAD: registers_.cq_head = value; return;
    case HPU_SIM_CANCEL: return cancel(value);
    case HPU_SIM_INT_STATUS: registers_.int_status &= ~value; return;
    case HPU_SIM_INT_ENABLE: registers_.int_enable = value; return;
    default:
      if ((registers_.status & HPU_SIM_STATUS_ENABLED) == 0) write_setup(offset, value);
  }
}

void Device::write_setup(std::uint32_t offset, std::uint32_t value) {
  Registers& r = registers_;
  switch (offset) {
    case HPU_SIM_SQ_BASE_LOW: r.sq_base_low = value; return;
    case HPU_SIM_SQ_BASE_HIGH: r.sq_base_high = value; return;
    case HPU_SIM_SQ_SIZE: r.sq_size = value; return;
    case HPU_SIM_CQ_BASE_LOW: r.cq_base_low = value; return;
    case HPU_SIM_CQ_BASE_HIGH: r.cq_base_high = value; return;
    case HPU_SIM_CQ_SIZE: r.cq_size = value; return;
    case HPU_SIM_MAX_PIXELS: r.max_pixels = value; return;
    case HPU_SIM_MAX_SCANS: r.max_scans = value; return;
    case HPU_SIM_MAX_SCAN_MEGAPIXELS: r.max_scan_megapixels = value; return;
    case HPU_SIM_FLAGS: r.flags = value; return;
    default: return;
  }
}

void Device::control(std::uint32_t bits) {
  if ((bits & HPU_SIM_CONTROL_RESET) != 0) {
    if (transition_ == Transition::kReset) reset_hangs_ = false;  // the reset after the one that hung
    begin(Transition::kReset);
  } else if ((bits & HPU_SIM_CONTROL_ENABLE) != 0 && transition_ == Transition::kNone) {
    enable();
  }
}

void Device::enable() {
  const Registers& r = registers_;
  const bool fits =
      is_ring(r.sq_base_low, r.sq_base_high, r.sq_size) && is_ring(r.cq_base_low, r.cq_base_high, r.cq_size);
  registers_.status |= fits ? HPU_SIM_STATUS_ENABLED : HPU_SIM_STATUS_REFUSED;
  settings_.limits = {r.max_pixels, r.max_scans, r.max_scan_megapixels};
  settings_.scale_in_decoder = (r.flags & HPU_SIM_FLAG_SCALE_IN_DECODER) != 0;
}

void Device::hear_doorbell(std::uint32_t tail) {
  Registers& r = registers_;
  if ((r.status & HPU_SIM_STATUS_ENABLED) == 0 || transition_ != Transition::kNone) return;
  if (loses_doorbell_) {
    loses_doorbell_ = false;
    ++injected_[static_cast<int>(Fault::kLostDoorbell)];
    return;
  }
  if (tail - r.sq_head > r.sq_size) return;  // more than the ring holds
  const Clock::time_point now = Clock::now();
  for (std::uint32_t entry = r.sq_tail; entry != tail; ++entry) {
    rung_at_[entry % r.sq_size] = now;
    cancelled_[entry % r.sq_size] = false;
  }
  r.sq_tail = tail;
  count(HPU_SIM_COUNT_DOORBELLS);
  if (storm_left_ > 0) {
    --storm_left_;
    begin(Transition::kSurpriseReset);
  }
  changed_.notify_all();
}

void Device::cancel(std::uint32_t entry) {
  Registers& r = registers_;
  const bool is_in = entry - r.sq_head < r.sq_tail - r.sq_head;
  const bool can = is_in && transition_ == Transition::kNone && !cancelled_[entry % r.sq_size];
  if (can) cancelled_[entry % r.sq_size] = true;
  r.cancelled = can ? 1 : 0;
}

void Device::start_firmware() {
  registers_ = Registers();
  registers_.status = HPU_SIM_STATUS_READY;
  ++boot_count_;
  firmware_ = injects(Fault::kWrongFirmware, boot_count_) ? kOtherFirmwareVersion : kFirmwareVersion;
  for (std::uint32_t u = 0; u < unit_count_; ++u) units_[u].holds_late = false;
}

void Device::begin(Transition transition) {
  if (transition > transition_) transition_ = transition;
  stop_ = true;
  changed_.notify_all();
  settle();
}

// Comes to pass when the last unit has come back.
void Device::settle() {
  if (transition_ == Transition::kNone || working_ > 0 || is_ending_) return;
  if (transition_ == Transition::kReset && reset_hangs_) return;
  is_gone_ = transition_ == Transition::kGone;
  transition_ = Transition::kNone;
  stop_ = false;
  if (!is_gone_) start_firmware();
  changed_.notify_all();
}

bool Device::injects(Fault fault, std::uint64_t number) {
  if (!strikes(options_, fault, number)) return false;
  ++injected_[static_cast<int>(fault)];
  if (fault == Fault::kResetStorm) storm_left_ = kStormResets;
  if (fault == Fault::kHungReset) reset_hangs_ = true;
  return true;
}

}  // namespace bascule::hpu_sim
