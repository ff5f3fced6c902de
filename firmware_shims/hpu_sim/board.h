// SPDX-License-Identifier: Apache-2.0
// The slot that the device sits in: what a platform gives a driver, and nothing of what is inside the device. The
// driver plugs it in, reads and writes its registers, hears its interrupt line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule::hpu_sim {

class Device;

struct Board {
  std::uint32_t units = 1;  // 1..HPU_SIM_MOST_UNITS
  std::uint32_t max_side = 0;
  std::size_t picture_bytes = 0;  // as in media_engine_config
  const char* options = nullptr;  // how the device behaves; below. Read by plug_in() only
  // The interrupt line: called in a thread of the device whenever it rises. May not touch a register.
  void (*interrupt)(void* context) = nullptr;
  void* context = nullptr;
};

// Options are words "name=value", apart by spaces:
//   rate=R           pictures a second of one unit; 0 (default): as fast as the host computes
//   latency_ms=X     from doorbell to the start of a picture, at least; default 0
//   seed=N           of the faults; default 1
//   fault=NAME:P     for each picture with probability P
//   fault=NAME@N     at the Nth picture that the device takes (from 1), once; may be given several times
//   polling=1        of the driver: no interrupts
//   timeout_ms=N     of the driver: when it suspects that a picture is lost, beyond what the device says a picture
//   takes
// Kinds of faults, in the order of the registers HPU_SIM_INJECTED: kFaultNames in faults.cpp.
constexpr int kFaultKinds = 16;
// null for a number that is none.
const char* fault_name(int number);

// null, or why one word of the options is not understood; static.
const char* option_problem(const char* word);

// The memory that the device takes.
std::size_t device_bytes(const Board& board);
// The device, in `memory` (64-byte aligned, device_bytes() of it, until unplug()); null: no threads, or options that
// are not understood. Takes threads, and what libjpeg takes at its start; nothing afterwards.
Device* plug_in(void* memory, const Board& board);
// Ends its threads. No register may be in use.
void unplug(Device* device);

// Any thread. Offsets that name no register read 0.
std::uint32_t read_register(Device* device, std::uint32_t offset);
void write_register(Device* device, std::uint32_t offset, std::uint32_t value);

}  // namespace bascule::hpu_sim
