// SPDX-License-Identifier: Apache-2.0
// Figures measured in rounds, and the time that was taken from them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/machine/machine.h"

namespace bascule {

// A figure of `bascule bringup`: what was measured, in several rounds, and how much time was taken from it.

// The share of its threads' time that a figure did not get, by who took it, 0..1 each. What the kernel does not count
// is 0.
struct TakenTime {
  double missing = 0.0;    // in all: CPU time against wall time; of work that waits for nothing else
  double delay = 0.0;      // another process had the core
  double throttled = 0.0;  // a control group's quota was used up
  double stolen = 0.0;     // the hypervisor ran something else
  double others = 0.0;     // of the time of its cores: used by other processes
  double siblings = 0.0;   // how busy the other hardware threads of its cores were with other processes' work

  // The most that any of these explains, at most 1.
  double share() const;
};

struct Figure {
  std::string item;   // of --only: "products"
  std::string name;   // "float32 3072 x 768"
  std::string place;  // "core 1", "all cores"; "" where that says nothing
  std::string unit;   // "GFLOP/s"
  bool more_is_better = true;
  std::vector<double> rounds;
  double limit = 0.0;  // the most that this machine allows, in the same unit; 0: not measured
  TakenTime taken;

  std::string key() const { return item + " " + name + " " + place; }
  double median() const;
  double best() const;
  double worst() const;
};

// The time that was taken from a probe over its rounds, from the kernel's counters before and after each.

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
