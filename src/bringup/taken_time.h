// SPDX-License-Identifier: Apache-2.0
// The time that was taken from a probe over its rounds, from the kernel's counters before and after each.
#pragma once

#include <cstdint>
#include <set>

#include "src/bringup/figure.h"
#include "src/machine/machine.h"

namespace bascule {

// The cores that a probe runs on, and their siblings that this process may not use.
struct CoresOfProbe {
  std::set<std::int64_t> own, siblings;
};

// Sums over the rounds of one probe, in seconds.
struct TimeSums {
  double due = 0.0;   // threads times wall time
  double used = 0.0;  // CPU time of this process
  double delay = 0.0, throttled = 0.0, stolen = 0.0;
  double busy = 0.0, siblings = 0.0, siblings_due = 0.0;

  // A round that took `wall` seconds. Its `used` is the caller's to add.
  void add(const CoresOfProbe& cores, double wall, const Counters& before, const Counters& after);
  // never_waits: the probe is one thread's work that waits for nothing. All threads of a step wait for the last.
  TakenTime taken(bool never_waits) const;
};

}  // namespace bascule
