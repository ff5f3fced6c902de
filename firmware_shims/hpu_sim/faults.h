// SPDX-License-Identifier: Apache-2.0
// The simulated faults: what may go wrong, how often by the options, and the decision for each picture. A decision is a
// function of (seed, fault, how many pictures the device has taken), so that it does not depend on threads or time.
#pragma once

#include <cstdint>

#include "firmware_shims/hpu_sim/board.h"
#include "firmware_shims/media_engine.h"

namespace bascule::hpu_sim {

enum class Fault {
  kLostCompletion,
  kDuplicatedCompletion,
  kLateCompletion,       // comes after the driver has asked for the picture again
  kCorruptedCompletion,  // a bit of the entry is wrong; every other time it is whole, with the number of a lap ago
  kCorruptedDescriptor,  // a bit of it is wrong in what the device reads
  kShortDma,             // the last pixels do not arrive; every other time the completion says that they did
  kDecodeError,
  kStalledUnit,    // until a reset
  kQueueOverrun,   // a completion is dropped and STATUS says so
  kWrongFirmware,  // counted over starts of the firmware, not pictures: @1 is the first
  kSurpriseReset,
  kResetStorm,  // a surprise reset, and three more, each at the first doorbell that follows
  kHungReset,   // a surprise reset; of the resets that the driver then asks for, the first does not end
  kDeviceGone,
  kSpuriousInterrupt,
  kLostDoorbell,  // the next one
};
static_assert(static_cast<int>(Fault::kLostDoorbell) + 1 == kFaultKinds);

struct FaultRule {
  Fault fault;
  double probability;  // of each picture; unused where `at` is not 0
  std::uint64_t at;    // the one picture, from 1
};

constexpr int kMostRules = MEDIA_ENGINE_FAULT_RULES;

struct Options {
  double rate = 0.0;        // pictures a second of one unit; 0: no bound
  double latency_ms = 0.0;  // from doorbell to start
  std::uint64_t seed = 1;
  FaultRule rules[kMostRules];
  int rule_count = 0;
};

// False: a word is not understood.
bool parse_options(Options* options, const char* text);

// Whether `fault` strikes at the `number`th picture (or start), from 1.
bool strikes(const Options& options, Fault fault, std::uint64_t number) noexcept;
// A number to choose by: which bit, how many bytes.
std::uint64_t draw(const Options& options, Fault fault, std::uint64_t number) noexcept;

}  // namespace bascule::hpu_sim
